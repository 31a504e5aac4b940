/// Doubles.
///
/// ```
/// assert_eq!(beta::twice(2), 4);
/// ```
///
/// ```should_panic
/// panic!();
/// ```
///
/// ```compile_fail
/// let x: u8 = "x";
/// ```
pub fn twice(a: i32) -> i32 {
    2 * a
}

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(super::twice(2), 4);
    }
}
