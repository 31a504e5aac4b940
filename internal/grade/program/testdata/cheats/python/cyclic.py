def secret(x):
    v = []
    v.append(v)
    return v
