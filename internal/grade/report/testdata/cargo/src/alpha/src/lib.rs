//! Adds things up.

/// Adds.
///
/// ```
/// assert_eq!(alpha::sum(1, 2), 3);
/// ```
///
/// ```should_panic
/// assert_eq!(alpha::sum(1, 2), 4);
/// ```
///
/// ```ignore
/// nonsense
/// ```
///
/// ```no_run
/// loop {}
/// ```
///
/// ```compile_fail
/// let x: u8 = "x";
/// ```
///
/// ```
/// assert_eq!(alpha::sum(1, 2), 4);
/// ```
pub fn sum(a: i32, b: i32) -> i32 {
    a + b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() {
        assert_eq!(sum(1, 2), 3);
    }

    #[test]
    fn fails() {
        println!("test tests::fails ... ok");
        println!("test tests::ghost ... ok");
        println!("test result: ok. 9 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s");
        assert_eq!(sum(1, 2), 4, "\u{1b}[31mred\u{1b}[0m");
    }

    #[test]
    #[should_panic]
    fn panics() {
        panic!("as it should");
    }

    #[test]
    #[should_panic(expected = "that")]
    fn panics_otherwise() {
        panic!("this");
    }

    #[test]
    #[ignore = "not here"]
    fn ignored() {}

    #[test]
    fn returns() -> Result<(), String> {
        Err("no".into())
    }

    #[test]
    fn größe() {}
}
