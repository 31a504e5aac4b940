def secret(x): pass
