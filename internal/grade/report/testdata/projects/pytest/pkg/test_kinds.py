"""A namesake of ../test_kinds.py."""
from test_kinds import TestInClass


def test_fails():
    pass


class TestInherits(TestInClass):
    pass
