#[test]
fn adds() {
    assert_eq!(beta::twice(1), 2);
}
