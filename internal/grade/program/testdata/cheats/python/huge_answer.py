def secret(x): return "a" * (1 << 28) if x % 2 else [0] * 10_000_000
