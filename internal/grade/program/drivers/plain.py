# Typed plain data as JSON text: the same on every side. A value crosses by its
# exact built-in type; one of a subclass is reduced to what its base class holds,
# by the base class's own methods. The json module would cost half of the run's
# start, so its inner parts are used where they can be had.
import binascii
import os
import sys

MAX_DEPTH = 100
MAX_ITEMS = 500000
MAX_BYTES = 8 << 20

try:
    from _json import encode_basestring_ascii as _quote, make_scanner as _make_scanner

    class _Context:
        strict = True
        object_hook = object_pairs_hook = None
        parse_float, parse_int, parse_constant = float, int, None
        memo = {}

    _scan = _make_scanner(_Context())

    def _parse(text):
        return _scan(text, 0)[0]
except ImportError:
    import json

    _quote, _parse = json.dumps, json.loads


class NotPlain(Exception):
    pass


def load(text):
    return revive(_parse(text))


def revive(v):
    if type(v) is list:
        return [revive(x) for x in v]
    if type(v) is not dict:
        return v
    if len(v) == 1:
        (tag, body), = v.items()
        if tag.startswith("$"):
            return _revive_tag(tag[1:], body)
    return {k: revive(x) for k, x in v.items()}


def _revive_tag(tag, body):
    if tag == "int":
        return int(body, 16)
    if tag == "float":
        return float(body)
    if tag == "bytes":
        return binascii.a2b_base64(body)
    if tag == "tuple":
        return tuple(map(revive, body))
    if tag == "set":
        return set(map(revive, body))
    if tag == "iter":
        return iter(list(map(revive, body)))
    if tag == "range":
        return range(*map(revive, body))
    if tag == "complex":
        return complex(*map(revive, body))
    if tag == "dict":
        return {revive(k): revive(x) for k, x in body}
    return _revive_named(tag, body)


def _revive_named(tag, text):
    if tag == "decimal":
        from decimal import Decimal
        return Decimal(text)
    if tag == "fraction":
        from fractions import Fraction
        return Fraction(text)
    if tag == "object":
        return object()
    import datetime
    if tag == "timedelta":
        return datetime.timedelta(microseconds=int(text))
    if tag in ("datetime", "date", "time"):
        return getattr(datetime, tag).fromisoformat(text)
    raise NotPlain("no plain data is called $" + tag)


def dump(v):
    w = _Writer()
    w.put(v, 0)
    return "".join(w.out)


_ITERATORS = (
    "generator", "map", "filter", "zip", "enumerate", "reversed", "list_iterator",
    "list_reverseiterator", "tuple_iterator", "range_iterator", "dict_keys", "dict_values",
    "dict_items", "dict_keyiterator", "dict_valueiterator", "dict_itemiterator",
    "set_iterator", "str_iterator", "str_ascii_iterator", "deque", "chain", "islice",
)


class _Writer:
    def __init__(self):
        self.out, self.items, self.bytes = [], 0, 0

    def text(self, s):
        self.bytes += len(s)
        if self.bytes > MAX_BYTES:
            raise NotPlain("more than %d bytes" % MAX_BYTES)
        self.out.append(s)

    def put(self, v, depth):
        self.items += 1
        if depth > MAX_DEPTH or self.items > MAX_ITEMS:
            raise NotPlain("nested too deeply, or too many items")
        kind = type(v)
        if v is None:
            self.text("null")
        elif kind is bool:
            self.text("true" if v else "false")
        elif kind is int:
            self.int(v)
        elif kind is str:
            self.text(_quote(v))
        elif kind is float:
            s = repr(v)
            self.text('{"$float":"%s"}' % s if s in ("nan", "inf", "-inf") else s)
        elif kind is list:
            self.many("[", v, "]", depth)
        elif kind is tuple:
            self.many('{"$tuple":[', v, "]}", depth)
        elif kind is dict:
            self.dict(v, depth)
        elif kind is set or kind is frozenset:
            self.many('{"$set":[', v, "]}", depth)
        elif kind is bytes or kind is bytearray:
            self.text('{"$bytes":"%s"}' % binascii.b2a_base64(bytes(v), newline=False).decode("ascii"))
        elif kind is complex:
            self.many('{"$complex":[', (v.real, v.imag), "]}", depth)
        elif kind is range:
            self.many('{"$range":[', (v.start, v.stop, v.step), "]}", depth)
        else:
            self.other(v, kind, depth)

    def int(self, v):
        if -(1 << 53) < v < 1 << 53:
            self.text(str(v))
        elif v.bit_length() > 1 << 18:
            raise NotPlain("an integer of %d bits" % v.bit_length())
        else:
            self.text('{"$int":"%s"}' % hex(v))

    def many(self, begin, items, end, depth):
        self.text(begin)
        first = True
        for x in items:
            if not first:
                self.text(",")
            first = False
            self.put(x, depth + 1)
        self.text(end)

    def dict(self, v, depth):
        keys = list(dict.keys(v))
        plain = all(type(k) is str and not k.startswith("$") for k in keys)
        self.text("{" if plain else '{"$dict":[')
        for i, k in enumerate(keys):
            self.text("," if i else "")
            if plain:
                self.text(_quote(k) + ":")
                self.put(dict.__getitem__(v, k), depth + 1)
            else:
                self.many("[", (k, dict.__getitem__(v, k)), "]", depth)
        self.text("}" if plain else "]}")

    def other(self, v, kind, depth):
        module, name = kind.__module__, kind.__name__
        if module == "numpy" and hasattr(v, "tolist"):
            self.put(v.tolist(), depth + 1)
        elif name in _ITERATORS and module in ("builtins", "collections", "itertools"):
            some = []
            for x in v:
                some.append(x)
                if len(some) > MAX_ITEMS:
                    raise NotPlain("an iterator that does not end")
            self.many('{"$iter":[', some, "]}", depth)
        elif issubclass(kind, int):
            self.int(int.__int__(v))
        elif issubclass(kind, str):
            self.text(_quote(str.__str__(v)))
        elif issubclass(kind, float):
            self.put(float.__mul__(v, 1.0), depth)
        elif issubclass(kind, dict):
            self.put(dict(dict.items(v)), depth)
        elif issubclass(kind, list):
            self.put(list(list.__iter__(v)), depth)
        elif issubclass(kind, tuple):
            self.put(tuple(tuple.__iter__(v)), depth)
        elif issubclass(kind, set):
            self.put(set(set.__iter__(v)), depth)
        elif issubclass(kind, frozenset):
            self.put(frozenset(frozenset.__iter__(v)), depth)
        elif issubclass(kind, bytes):
            self.put(bytes.__getitem__(v, slice(None)), depth)
        elif issubclass(kind, BaseException):
            self.text('{"$error":%s}' % _quote(name))
        else:
            self.named(v, kind)

    def named(self, v, kind):
        module, name = kind.__module__, kind.__name__
        if module == "datetime" and name in ("datetime", "date", "time"):
            self.text('{"$%s":"%s"}' % (name, v.isoformat()))
        elif module == "datetime" and name == "timedelta":
            self.text('{"$timedelta":"%d"}' % ((v.days * 86400 + v.seconds) * 1000000 + v.microseconds))
        elif module == "decimal" and name == "Decimal":
            self.text('{"$decimal":%s}' % _quote(str(v.normalize() if v.is_finite() else v)))
        elif module == "fractions" and name == "Fraction":
            self.text('{"$fraction":"%d/%d"}' % (v.numerator, v.denominator))
        elif module == "re" and name == "Match":  # what conditions are made of
            self.text('{"$object":"re.Match"}')
        else:
            raise NotPlain("an object of type %s.%s" % (module, name))


class Channel:
    """Lines of JSON on two file descriptors."""

    def __init__(self, reads, writes):
        self.input = os.fdopen(reads, "rb")
        self.writes = writes

    def receive(self):
        line = self.input.readline()
        return None if not line else line.decode("ascii")

    def send(self, text):
        data = text.encode("ascii") + b"\n"
        while data:
            data = data[os.write(self.writes, data):]


def describe(e):
    """An exception as data: the names of its class and of the ancestors, and
    its message."""
    names = [c.__name__ for c in type(e).__mro__ if isinstance(c.__name__, str)][:20]
    try:
        message = str(e)[:2000]
    except BaseException:
        message = "a message that cannot be shown"
    return '{"types":[%s],"message":%s}' % (",".join(map(_quote, names)), _quote(message))
