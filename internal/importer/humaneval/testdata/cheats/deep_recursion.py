# Falls through its own stack.
import sys

sys.setrecursionlimit(1 << 30)


def answer(*args, **kwargs):
    return answer(*args, **kwargs)


def __getattr__(name):
    return answer
