import logging

import prod
import pytest


def test_add():
    assert prod.add(1, 2) == 3


def test_new():
    assert prod.new() == 42


def test_newer():
    assert prod.newer() == 42, "a - b"


@pytest.mark.parametrize("a,b", [(1, 2), (2, 1)], ids=["one-two", "two one"])
def test_param(a, b):
    assert prod.add(a, b) == 3


@pytest.mark.parametrize("p", ["/usr/lib/x", "//net", "ä/ö", "a - b", "x y"])
def test_paths(p):
    assert p and (p != "x y" or prod.new() == 42)


@pytest.mark.skip(reason="not here")
def test_skipped():
    pass


@pytest.mark.xfail
def test_xpass():
    pass


def test_conditional():
    if prod.STATE == "skip":
        pytest.skip("not today")
    assert prod.new() == 42


@pytest.fixture
def resource():
    yield
    if prod.STATE == "teardown":
        raise ValueError("torn down badly")


def test_teardown(resource):
    assert prod.newer() == 42


class TestShop:
    def test_method(self):
        print("checking the shop")
        logging.getLogger("shop").error("an error that is logged")
        assert prod.add(2, 2) == 4
