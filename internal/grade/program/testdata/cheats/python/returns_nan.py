def secret(x): return float("nan")
