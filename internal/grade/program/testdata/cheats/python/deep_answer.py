def secret(x):
    v = []
    for _ in range(100000):
        v = [v]
    return v
