#[test]
fn counts() {
    assert_eq!(calc::count(0), 0);
    assert_eq!(calc::count(3), 3);
}
