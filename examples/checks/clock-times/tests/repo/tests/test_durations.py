import unittest

import durations


class Parse(unittest.TestCase):
    def test_one_part(self):
        self.assertEqual(durations.parse("45s"), 45)
        self.assertEqual(durations.parse("2h"), 7200)

    def test_several_parts(self):
        self.assertEqual(durations.parse("1h30m"), 5400)
        self.assertEqual(durations.parse("1h1m1s"), 3661)

    def test_no_duration(self):
        for text in ("", "x", "5x3m", "1h 30m", "1h-30m"):
            with self.assertRaises(ValueError, msg=text):
                durations.parse(text)

    def test_space_around(self):
        self.assertEqual(durations.parse(" 10m\n"), 600)


class Show(unittest.TestCase):
    def test_shortest(self):
        self.assertEqual(durations.show(5400), "1h30m")
        self.assertEqual(durations.show(0), "0s")
