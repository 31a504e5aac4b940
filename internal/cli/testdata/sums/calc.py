"""Sums of rows, as they stand in a table."""
import pathlib


def factor():
    """The number by which every sum is multiplied."""
    text = pathlib.Path(__file__).with_name('settings.ini').read_text()
    pairs = dict(line.split('=') for line in text.splitlines() if line.strip())
    return int(pairs['factor '])


def total(rows, header=False):
    """The sum of rows, without the header that may stand first."""
    if not rows:
        return 0
    if header:
        rows = rows[1:]
    amounts = []
    for row in rows:
        if row is None:
            continue
        amounts.append(row * factor())
    return sum(amounts)


def largest(rows, default=None):
    """The largest row that is not negative."""
    best = default
    for row in rows:
        if row < 0:
            continue
        if best is None or row > best:
            best = row
    return best
