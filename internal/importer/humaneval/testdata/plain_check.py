"""Properties of plain.py, run by plain_test.go: argv is its directory and a seed."""

import collections
import math
import random
import struct
import sys

sys.path.insert(0, sys.argv[1])
import plain

rng = random.Random(int(sys.argv[2]))


def leaf():
    return rng.choice([
        None, True, False, 0, -1, 255, -256, 1 << 64, -(1 << 200), rng.getrandbits(rng.randint(1, 4096)),
        0.0, -0.0, 1e308, 5e-324, math.inf, -math.inf, rng.random(), complex(1, -2), complex(-0.0, math.inf),
        "", "é\u0000\U0001f600", "\ud800", b"", b"\x00\xff", range(3, -9, -2), rng.choice("abc"),
    ])


def value(depth=0):
    kind = rng.randint(0, 9 if depth < 5 else 0)
    several = lambda make: [make() for _ in range(rng.randint(0, 4))]
    deeper = lambda: value(depth + 1)
    if kind == 1:
        return several(deeper)
    if kind == 2:
        return tuple(several(deeper))
    if kind == 3:
        return set(several(leaf))
    if kind == 4:
        return frozenset(several(leaf))
    if kind == 5:
        return {leaf(): deeper() for _ in range(rng.randint(0, 4))}
    if kind == 6:
        return bytearray(rng.getrandbits(8) for _ in range(5))
    return leaf()


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return len(a) == len(b) and all(same(x, y) for p, q in zip(a.items(), b.items()) for x, y in zip(p, q))
    if isinstance(a, float):
        return struct.pack(">d", a) == struct.pack(">d", b)
    return a == b and repr(a) == repr(b) if not isinstance(a, (set, frozenset)) else a == b


def refused(make):
    try:
        made = make()
    except plain.NotPlain:
        return
    raise AssertionError("accepted: %r" % (made,))


seeds = []
for _ in range(2000):
    v = value()
    data = plain.encode(v)
    assert same(plain.decode(data), v), v
    seeds.append(data)

nan = plain.decode(plain.encode(float("nan")))
assert type(nan) is float and nan != nan

# What compares as a dict crosses as one; what is only iterated crosses as an iterator.
for v in (collections.OrderedDict(a=1), collections.Counter("aab"), collections.defaultdict(int, a=1)):
    got = plain.decode(plain.encode(v))
    assert type(got) is dict and got == v
for v in (map(str, [1, 2]), (str(i) for i in (1, 2)), {"1": 0, "2": 0}.keys(), collections.deque(["1", "2"])):
    got = plain.decode(plain.encode(v))
    assert got != ["1", "2"] and list(got) == ["1", "2"], got


class Yes(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


cycle = []
cycle.append(cycle)
endless = iter(int, 1)
for bad in (Yes(), [Yes()], {1: Yes()}, object(), int, len, lambda: 0, type("str", (str,), {})("x"), cycle,
            (0 for _ in endless), endless, "x" * (plain.MAX_FRAME + 1), 1 << (8 * plain.MAX_INT), [0] * (plain.MAX_ITEMS + 1),
            collections.namedtuple("T", "a")(1), type("Counter", (dict,), {"__eq__": lambda s, o: True})(),
            float.fromhex, NotImplemented, Ellipsis, memoryview(b"x"), Exception("x")):
    refused(lambda: plain.encode(bad))

# The decoder: every prefix, every kind of damage, and noise are refused or are
# plain data again. It raises nothing but NotPlain.
allowed = (type(None), bool, int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict, range, type(iter([])))
for data in seeds[:600]:
    for _ in range(20):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(damaged) + 1)
            choice = rng.randint(0, 2)
            if choice == 0 and at < len(damaged):
                damaged[at] = rng.getrandbits(8)
            elif choice == 1:
                damaged[at:at] = bytes([rng.choice(b"NTFisbyfcltezIdr\x00\xff")])
            else:
                del damaged[at:]
        try:
            assert type(plain.decode(bytes(damaged))) in allowed
        except plain.NotPlain:
            pass
for bad in (b"", b"NN", b"P", b"l\xff\xff\xff\xff", b"d\x00\x00\x00\x01l\x00\x00\x00\x00N", b"e\x00\x00\x00\x01l\x00\x00\x00\x00",
            b"i\x00\x00\x00\x00", b"i\xff\xff\xff\xff", b"s\x00\x00\x00\x01\xff", b"r" + plain.encode(0) * 3, b"rNNN",
            b"l\x00\x00\x00\x01" * 200 + b"N", b"N" * (plain.MAX_FRAME + 1), b"l\x00\x03\x0d\x40" + b"N" * 200000):
    refused(lambda: plain.decode(bad))
print("checked")
