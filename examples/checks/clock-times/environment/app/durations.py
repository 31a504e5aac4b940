"""Durations as people write them: "1h30m", "45s", "2h"."""

import re
import sys

UNITS = {"h": 3600, "m": 60, "s": 1}


def parse(text):
    """Seconds of a duration; ValueError if the text is none."""
    found = re.findall(r"(\d+)([hms])", text)
    if not found:
        raise ValueError("no duration: %r" % text)
    return sum(int(n) * UNITS[unit] for n, unit in found[:1])


def show(seconds):
    """The shortest text of a number of seconds."""
    if seconds == 0:
        return "0s"
    out = ""
    for unit, size in UNITS.items():
        if seconds >= size:
            out += "%d%s" % (seconds // size, unit)
            seconds %= size
    return out


if __name__ == "__main__":
    try:
        print(parse(sys.stdin.read().strip()))
    except ValueError as e:
        sys.exit(str(e))
