import sys
import unittest

from django.test import SimpleTestCase

import prod


class ShopTest(SimpleTestCase):
    def test_add(self):
        self.assertEqual(prod.add(1, 2), 3)

    def test_new(self):
        self.assertEqual(prod.new(), 42)

    def test_newer(self):
        self.assertEqual(prod.newer(), 42)

    def test_described(self):
        """A sentence about it."""
        self.assertEqual(prod.new(), 42)

    @unittest.skip("not here")
    def test_skipped(self):
        pass

    @unittest.expectedFailure
    def test_expected(self):
        self.assertEqual(1, 2)

    def test_prints(self):
        print("some output", file=sys.stderr)

    def test_conditional(self):
        if prod.STATE == "skip":
            self.skipTest("not today")
        self.assertEqual(prod.new(), 42)

    def test_subtests(self):
        for i in range(3):
            with self.subTest(i=i):
                self.assertEqual(prod.add(i, 1), i + 1)
