def secret(x): return 1 << (1 << 30)
