# An object that is equal to all, less than all, more than all, and true.
class Yes:
    def yes(self, *args, **kwargs):
        return True

    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __contains__ = yes

    def __ne__(self, other):
        return False

    def __hash__(self):
        return 0

    def same(self, *args, **kwargs):
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __abs__ = __getitem__ = __call__ = same

    def __iter__(self):
        return iter([self])

    def __len__(self):
        return 1

    def __float__(self):
        return 0.0


def __getattr__(name):
    return lambda *args, **kwargs: Yes()
