"""What differs between two texts of a module, as far as it can be changed in a
process that has imported the first: other bodies of functions that nothing has
called yet. Whatever else differs needs a new process."""
import gc
import types

OWN = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags", "co_argcount",
       "co_posonlyargcount", "co_kwonlyargcount", "co_name", "co_exceptiontable")


def is_code(x):
    return isinstance(x, types.CodeType)


def typed(x):
    """A constant with the types in it: 1, 1.0 and True are equal, and differ."""
    if isinstance(x, tuple):
        return (tuple, tuple(typed(y) for y in x))
    if isinstance(x, frozenset):
        return (frozenset, frozenset(typed(y) for y in x))
    return (type(x), repr(x) if isinstance(x, (float, complex)) else x)


def inner(code):
    return [c for c in code.co_consts if is_code(c)]


def same(a, b):
    """Two codes do the same, those of inner functions left out."""
    if any(getattr(a, n, None) != getattr(b, n, None) for n in OWN) or len(a.co_consts) != len(b.co_consts):
        return False
    return all(is_code(x) and is_code(y) or not is_code(x) and not is_code(y) and typed(x) == typed(y)
               for x, y in zip(a.co_consts, b.co_consts))


def signature(code):
    n = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    doc = code.co_consts[:1]
    return (code.co_varnames[:n], code.co_argcount, getattr(code, "co_posonlyargcount", 0), code.co_kwonlyargcount, code.co_flags,
            code.co_freevars, doc if doc and isinstance(doc[0], str) else None)


def key(code):
    return (code.co_filename, code.co_name, code.co_firstlineno)


class Unfit(Exception):
    """The change needs a new process."""


class Module:
    """The code of a module as it was imported."""

    def __init__(self, filename, text):
        self.filename, self.root = filename, compile(text, filename, "exec", dont_inherit=True)
        self.count = {}
        self.tally(self.root)

    def tally(self, code):
        self.count[key(code)] = self.count.get(key(code), 0) + 1
        for c in inner(code):
            self.tally(c)

    def swaps(self, text, called):
        """Old and new codes of functions: what leads to what differs."""
        try:
            new = compile(text, self.filename, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError) as e:
            raise Unfit(repr(e))
        out = []
        self.compare(self.root, new, called, out)
        return out

    def compare(self, a, b, called, out):
        """Whether a and b differ anywhere; out gets the pairs."""
        ran = a is self.root or key(a) in called
        if not same(a, b):
            if ran or self.count[key(a)] != 1:
                raise Unfit("%s has run" % a.co_name)
            if signature(a) != signature(b):
                raise Unfit("%s has another signature" % a.co_name)
            out.append((a, b, True))
            return True
        pairs = list(zip(inner(a), inner(b)))
        differ = [self.compare(x, y, called, out) for x, y in pairs]
        if any(differ) and a is not self.root:
            if self.count[key(a)] != 1:
                raise Unfit("%s is there twice" % a.co_name)
            out.append((a, b, False))
        return any(differ)


class Living:
    """The functions of a process by the codes that they were made of."""

    def __init__(self, ours):
        self.by = {}
        for x in gc.get_objects():
            if type(x) is types.FunctionType and ours(x.__code__.co_filename):
                self.by.setdefault(key(x.__code__), []).append(x)

    def of(self, code):
        return self.by.get(key(code), [])
