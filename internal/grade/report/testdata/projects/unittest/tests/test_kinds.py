"""Every kind of result that unittest has."""
import sys
import unittest


class Kinds(unittest.TestCase):
    def test_passes(self):
        print("test_fails (tests.test_kinds.Kinds) ... ok", file=sys.stderr)

    def test_docstring(self):
        """A docstring (is.no.id) ... ok"""

    def test_fails(self):
        """ok"""
        self.assertEqual(1 + 1, 3, "\x1b[31mred\x1b[0m 雪\nsecond line")

    def test_raises(self):
        ok = int("nope")

    def test_exits(self):
        sys.exit(0)

    @unittest.skip("not here")
    def test_skipped(self):
        pass

    def test_skips_itself(self):
        self.skipTest("later")

    @unittest.expectedFailure
    def test_expected_failure(self):
        self.fail("known")

    @unittest.expectedFailure
    def test_unexpected_success(self):
        pass

    def test_ünïcode(self):
        pass


class Subtests(unittest.TestCase):
    def test_all_pass(self):
        for i in range(3):
            with self.subTest(at=object(), i=i):
                pass

    def test_one_fails(self):
        for i in range(3):
            with self.subTest("a message (with.dots)", i=i):
                self.assertNotEqual(i, 1)

    def test_one_raises(self):
        for i in range(3):
            with self.subTest(i=i):
                1 / (1 - i)

    def test_one_skips(self):
        for i in range(3):
            with self.subTest(i=i):
                if i == 1:
                    self.skipTest("one")

    def test_fails_after_a_subtest(self):
        with self.subTest(i=0):
            pass
        self.fail("after")


class Around(unittest.TestCase):
    def setUp(self):
        if "setup" in self._testMethodName:
            raise RuntimeError("set-up")

    def tearDown(self):
        if "teardown" in self._testMethodName:
            raise RuntimeError("tear-down")

    def test_setup_error(self):
        pass

    def test_pass_then_teardown_error(self):
        pass

    def test_fail_then_teardown_error(self):
        self.fail("first")

    def test_cleanup_fails(self):
        self.addCleanup(self.fail, "in a clean-up")


class ClassSetUpFails(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError("class")

    def test_never_runs(self):
        pass


class ClassTearDownFails(unittest.TestCase):
    @classmethod
    def tearDownClass(cls):
        raise RuntimeError("class")

    def test_runs(self):
        pass


class ClassSkips(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise unittest.SkipTest("all of it")

    def test_never_runs(self):
        pass


class Base(unittest.TestCase):
    def test_inherited(self):
        pass


class Inherits(Base):
    pass


class Async(unittest.IsolatedAsyncioTestCase):
    async def test_awaits(self):
        pass

    async def test_fails(self):
        self.fail("async")
