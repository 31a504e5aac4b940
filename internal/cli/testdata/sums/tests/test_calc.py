import unittest

import calc


class Calc(unittest.TestCase):
    def test_total(self):
        self.assertEqual(calc.total([1, 41]), 42)

    def test_header(self):
        self.assertEqual(calc.total([7, 3], header=True), 3)

    def test_holes(self):
        self.assertEqual(calc.total([1, None, 2]), 3)

    def test_no_rows(self):
        self.assertEqual(calc.total([]), 0)

    def test_largest(self):
        self.assertEqual(calc.largest([1, 9, 4]), 9)

    def test_negative(self):
        self.assertEqual(calc.largest([-1, -9]), None)

    def test_default(self):
        self.assertEqual(calc.largest([], 5), 5)

    def test_true(self):
        self.assertTrue(True)
