import pytest

import calc


def test_add():
    assert calc.add(1, 2) == 3


@pytest.mark.parametrize("n,want", [(5, 5), (50, 10)])
def test_clamp(n, want):
    assert calc.clamp(n) == want


class TestCount:
    def test_none(self):
        assert calc.count(0) == 0

    def test_some(self):
        assert calc.count(3) == 3


def test_fails_always():
    assert calc.add(1, 1) == 3
