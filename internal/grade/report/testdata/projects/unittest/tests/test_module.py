"""A module whose set-up fails."""
import unittest


def setUpModule():
    raise RuntimeError("module")


class Kinds(unittest.TestCase):
    def test_passes(self):
        pass
