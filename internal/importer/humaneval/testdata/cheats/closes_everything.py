# Closes all its files and goes on.
import os
import time


def answer(*args, **kwargs):
    os.closerange(0, 256)
    time.sleep(60)


def __getattr__(name):
    return answer
