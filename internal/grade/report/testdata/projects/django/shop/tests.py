"""Every kind of result that Django's runner has."""
import unittest

from django.test import SimpleTestCase, TestCase, TransactionTestCase

from .models import Item


class Views(SimpleTestCase):
    def test_index(self):
        """The index (shop.tests.Views) ... ok"""
        self.assertContains(self.client.get("/"), "ok")

    def test_missing(self):
        self.assertEqual(self.client.get("/none").status_code, 200)


class Items(TestCase):
    @classmethod
    def setUpTestData(cls):
        Item.objects.create(name="one")

    def test_count(self):
        self.assertEqual(Item.objects.count(), 1)

    def test_twice(self):
        Item.objects.create(name="one")

    def test_queries(self):
        with self.assertNumQueries(2):
            Item.objects.count()

    @unittest.expectedFailure
    def test_expected(self):
        self.fail("known")

    @unittest.expectedFailure
    def test_unexpected(self):
        pass

    @unittest.skip("not here")
    def test_skipped(self):
        pass

    def test_subtests(self):
        for i in range(3):
            with self.subTest(i=i):
                self.assertNotEqual(i, 1)


class BadData(TestCase):
    @classmethod
    def setUpTestData(cls):
        raise RuntimeError("data")

    def test_never_runs(self):
        pass


class Whole(TransactionTestCase):
    def test_empty(self):
        self.assertEqual(Item.objects.count(), 0)
