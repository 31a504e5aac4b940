//! A small project whose suite has every ending.

/// Adds.
///
/// ```
/// assert_eq!(calc::add(2, 2), 4);
/// ```
pub fn add(a: i64, b: i64) -> i64 {
    a + b
}

const LIMIT: i64 = 10;

pub fn clamp(n: i64) -> i64 {
    // a "brace { in a comment"
    if n > LIMIT {
        return LIMIT;
    }
    n
}

pub fn count(mut n: i64) -> i64 {
    let mut total = 0;
    while n > 0 {
        total += 1;
        n -= 1;
    }
    total
}

/// Only the documentation tests it.
///
/// ```
/// assert_eq!(calc::first("{'a"), Some('{'));
/// ```
pub fn first<'a>(s: &'a str) -> Option<char> {
    let _quote = '"';
    s.chars().next()
}

pub fn unused(n: i64) -> i64 {
    n * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() {
        assert_eq!(add(1, 2), 3);
    }

    #[test]
    fn clamps() {
        assert_eq!(clamp(5), 5);
        assert_eq!(clamp(50), 10);
    }

    #[test]
    fn always_fails() {
        assert_eq!(add(1, 1), 3);
    }
}
