import os
def secret(x):
    while True:
        os.write(3, b"a" * 65536)
