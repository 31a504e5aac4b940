import os
def secret(x):
    os.write(3, b'{"value":' + b"[" * 1000000 + b"]" * 1000000 + b"}\n")
    os._exit(0)
