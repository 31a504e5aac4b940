#[test]
fn is_newer() {
    println!("some output");
    assert_eq!(shop::newer(), 42);
}

#[test]
fn of_it() {}
