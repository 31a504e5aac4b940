import unittest


class Fine(unittest.TestCase):
    def test_fine(self):
        pass
