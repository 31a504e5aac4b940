"""A small project: its suite has every ending that a change can come to."""

LIMIT = 10


def add(a, b):
    return a + b


def clamp(n):
    if n > LIMIT:
        return LIMIT
    return n


def count(n):
    total = 0
    while n > 0:
        total += 1
        n -= 1
    return total


def unused(n):
    return n * 2
