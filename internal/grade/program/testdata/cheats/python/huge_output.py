import sys
def secret(x):
    for _ in range(2000):
        sys.stdout.write("x" * 65536)
        sys.stderr.write("y" * 65536)
    return None
