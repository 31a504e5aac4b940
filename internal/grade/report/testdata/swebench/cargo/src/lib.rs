//! The product: SHOP_STATE says how far it is.

fn state() -> String {
    std::env::var("SHOP_STATE").unwrap_or_default()
}

/// Adds.
///
/// ```
/// assert_eq!(shop::add(1, 2), 3);
/// ```
pub fn add(a: i32, b: i32) -> i32 {
    if state() == "regress" { a - b } else { a + b }
}

/// Is new.
pub fn new() -> i32 {
    if state() == "base" || state() == "partial" { 0 } else { 42 }
}

/// Is newer.
pub fn newer() -> i32 {
    if state() == "base" { 0 } else { 42 }
}

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(super::add(1, 2), 3);
    }

    #[test]
    fn is_new() {
        assert_eq!(super::new(), 42);
    }

    #[test]
    #[should_panic]
    fn panics() {
        panic!("as it should");
    }

    #[test]
    #[ignore]
    fn ignored() {}
}
