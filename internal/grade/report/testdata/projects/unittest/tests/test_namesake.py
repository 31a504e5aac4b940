"""The names of test_kinds again."""
import unittest


class Kinds(unittest.TestCase):
    def test_fails(self):
        pass
