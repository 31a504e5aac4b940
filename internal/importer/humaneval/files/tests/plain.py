"""The only language that judge and candidate share: typed plain data.

A value is encoded by its exact type and rebuilt as that exact built-in type on
the other side, so no object with methods of the candidate's own can cross. The
decoder trusts nothing: size, depth and count are capped, and anything that is
not well formed raises NotPlain. There is no word here for "passed".

Encoding, big-endian: one tag byte, then
  N T F            None, True, False
  i s b y          int (two's complement), str (UTF-8 with surrogates), bytes,
                   bytearray: 4-byte length and that many bytes
  f c              float, complex: one or two IEEE 754 doubles, bit for bit
  l t e z I d      list, tuple, set, frozenset, iterator, dict: 4-byte count and
                   the items; a dict's items are key, value, key, value, …
  r                range: three ints
"""

import struct

MAX_FRAME = 1 << 20  # bytes of one message
MAX_DEPTH = 64
MAX_ITEMS = 200000  # values in one message
MAX_INT = 8192  # bytes of one integer

_count = struct.Struct(">I")
_double = struct.Struct(">d")
_tags = {list: b"l", tuple: b"t", set: b"e", frozenset: b"z"}
# Their equality is dict's own, so an honest answer loses nothing by crossing
# as a dict.
_dicts = ("OrderedDict", "defaultdict", "Counter")
# What an honest function may return where a test only iterates.
_iterators = (
    "generator", "map", "filter", "zip", "enumerate", "reversed", "list_iterator",
    "list_reverseiterator", "tuple_iterator", "range_iterator", "dict_keys",
    "dict_values", "dict_items", "set_iterator", "str_iterator", "deque",
)


class NotPlain(Exception):
    """The value or message is not plain data within the limits."""


def encode(value):
    """Return the bytes of value; raise NotPlain if it is not plain data."""
    out = []
    _encode(value, out, 0, [0, 0])
    return b"".join(out)


def _encode(v, out, depth, used):
    used[0] += 1
    if depth > MAX_DEPTH or used[0] > MAX_ITEMS:
        raise NotPlain("the value is nested too deeply or has too many items")
    kind = type(v)
    if v is None:
        out.append(b"N")
    elif kind is bool:
        out.append(b"T" if v else b"F")
    elif kind is int:
        size = v.bit_length() // 8 + 1
        if size > MAX_INT:
            raise NotPlain("an integer of %d bytes" % size)
        _raw(b"i", v.to_bytes(size, "big", signed=True), out, used)
    elif kind is float:
        out.append(b"f" + _double.pack(v))
    elif kind is complex:
        out.append(b"c" + _double.pack(v.real) + _double.pack(v.imag))
    elif kind is str:
        _raw(b"s", v.encode("utf-8", "surrogatepass"), out, used)
    elif kind is bytes:
        _raw(b"b", v, out, used)
    elif kind is bytearray:
        _raw(b"y", bytes(v), out, used)
    elif kind is range:
        out.append(b"r")
        for part in (v.start, v.stop, v.step):
            _encode(part, out, depth + 1, used)
    elif kind in _tags:
        _items(_tags[kind], v, out, depth, used)
    elif kind is dict or (kind.__module__ == "collections" and kind.__name__ in _dicts):
        flat = [x for pair in dict.items(v) for x in pair]
        _items(b"d", flat, out, depth, used)
    elif kind.__name__ in _iterators and kind.__module__ in ("builtins", "collections"):
        some = []
        for x in v:
            some.append(x)
            if len(some) > MAX_ITEMS:
                raise NotPlain("an iterator that does not end")
        _items(b"I", some, out, depth, used)
    else:
        raise NotPlain("an object of type %s.%s" % (kind.__module__, kind.__name__))


def _raw(tag, body, out, used):
    used[1] += len(body)
    if used[1] > MAX_FRAME:
        raise NotPlain("more than %d bytes" % MAX_FRAME)
    out.append(tag + _count.pack(len(body)) + body)


def _items(tag, items, out, depth, used):
    out.append(tag + _count.pack(len(items) // 2 if tag == b"d" else len(items)))
    for x in items:
        _encode(x, out, depth + 1, used)


def decode(data):
    """Return the value of data, which must hold exactly one."""
    if len(data) > MAX_FRAME:
        raise NotPlain("a message of %d bytes" % len(data))
    reader = _Reader(data)
    try:
        value = reader.value(0)
    except (TypeError, ValueError, OverflowError, MemoryError) as e:
        # An unhashable key, a range with step 0, bytes that are not UTF-8.
        raise NotPlain("malformed: %s" % type(e).__name__)
    if reader.at != len(data):
        raise NotPlain("bytes after the value")
    return value


class _Reader:
    def __init__(self, data):
        self.data, self.at, self.used = data, 0, 0

    def take(self, n):
        end = self.at + n
        if end > len(self.data):
            raise NotPlain("the message ends early")
        part = self.data[self.at:end]
        self.at = end
        return part

    def count(self):
        return _count.unpack(self.take(4))[0]

    def double(self):
        return _double.unpack(self.take(8))[0]

    def value(self, depth):
        self.used += 1
        if depth > MAX_DEPTH or self.used > MAX_ITEMS:
            raise NotPlain("nested too deeply or too many items")
        tag = self.take(1)
        if tag == b"N":
            return None
        if tag == b"T":
            return True
        if tag == b"F":
            return False
        if tag == b"f":
            return self.double()
        if tag == b"c":
            real = self.double()
            return complex(real, self.double())
        if tag == b"r":
            start, stop, step = (self.value(depth + 1) for _ in range(3))
            return range(start, stop, step)
        if tag in b"isby":
            return self.raw(tag)
        if tag in b"ltezId":
            return self.items(tag, depth)
        raise NotPlain("unknown tag %r" % tag)

    def raw(self, tag):
        n = self.count()
        if tag == b"i" and not 0 < n <= MAX_INT:
            raise NotPlain("an integer of %d bytes" % n)
        body = self.take(n)
        if tag == b"i":
            return int.from_bytes(body, "big", signed=True)
        if tag == b"s":
            return body.decode("utf-8", "surrogatepass")
        return body if tag == b"b" else bytearray(body)

    def items(self, tag, depth):
        n = self.count()
        if n > MAX_ITEMS:
            raise NotPlain("%d items" % n)
        if tag == b"d":
            made = {}
            for _ in range(n):
                key = self.value(depth + 1)
                made[key] = self.value(depth + 1)
            return made
        made = [self.value(depth + 1) for _ in range(n)]
        if tag == b"l":
            return made
        if tag == b"I":
            return iter(made)
        return {b"t": tuple, b"e": set, b"z": frozenset}[tag](made)
