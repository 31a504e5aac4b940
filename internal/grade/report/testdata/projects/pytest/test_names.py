"""Names that tools get wrong."""
import pytest


@pytest.mark.parametrize("x", [
    "a b", "雪", "e\u0301", "é", "a::b", "a > b", "[x]", "", "- dash", "<&\"'>",
    "\x1b[31mred\x1b[0m", "line\nbreak", "back\\slash", "tab\t", "x" * 200, "a/b.py::c", "PASSED",
])
def test_text(x):
    pass


@pytest.mark.parametrize("x", ["same", "same"], ids=["twice", "twice"])
def test_same_ids(x):
    pass


@pytest.mark.parametrize("a,b", [(1, 2.5), (None, True), (b"\x00\xff", object)])
def test_values(a, b):
    assert a != 1


def test_ünïcode_name():
    pass
