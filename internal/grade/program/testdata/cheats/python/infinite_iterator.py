import itertools
def secret(x): return itertools.islice(iter(int, 1), 10**12) if x % 2 else (i for i in iter(int, 1))
