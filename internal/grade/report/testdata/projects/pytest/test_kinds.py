"""Every kind of result that pytest has."""
import sys
import unittest

import pytest


def test_passes():
    print("test_kinds.py::test_fails PASSED")


def test_fails():
    assert 1 + 1 == 3, "\x1b[31mred\x1b[0m <&> ]]> 雪"


def test_raises():
    raise ValueError("no assertion\nsecond line")


def test_pytest_fail():
    pytest.fail("on purpose")


def test_did_not_raise():
    with pytest.raises(KeyError):
        pass


def test_exits():
    sys.exit(0)


@pytest.mark.skip(reason="not here")
def test_skipped():
    pass


def test_skips_itself():
    pytest.skip("later")


@pytest.mark.xfail(reason="known")
def test_xfail():
    assert False


@pytest.mark.xfail
def test_xpass():
    pass


@pytest.mark.xfail(strict=True)
def test_xpass_strict():
    pass


@pytest.fixture
def bad_setup():
    raise RuntimeError("set-up")


@pytest.fixture
def bad_teardown():
    yield
    raise RuntimeError("tear-down")


def test_setup_error(bad_setup):
    pass


def test_pass_then_teardown_error(bad_teardown):
    pass


def test_fail_then_teardown_error(bad_teardown):
    assert False


@pytest.mark.xfail
def test_xfail_then_teardown_error(bad_teardown):
    assert False


def test_skip_then_teardown_error(bad_teardown):
    pytest.skip("then broken")


class TestInClass:
    def test_fails(self):
        assert "namesake of the function"

    class TestNested:
        def test_fails(self):
            pass


class TestUnittest(unittest.TestCase):
    def test_sub(self):
        for i in range(3):
            with self.subTest(i=i):
                self.assertNotEqual(i, 1)

    def test_ok(self):
        """A docstring is no id."""

    @unittest.expectedFailure
    def test_expected(self):
        self.fail("known")

    @unittest.expectedFailure
    def test_unexpected(self):
        pass
