# Announces a message of 4 GiB and sends it for as long as it is read.
import os


def answer(*args, **kwargs):
    os.write(4, b"\xff\xff\xff\xff")
    while True:
        os.write(4, b"V" * 65536)


def __getattr__(name):
    return answer
