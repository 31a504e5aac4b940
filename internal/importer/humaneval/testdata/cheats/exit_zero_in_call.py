# Ends its process with success at the first call.
import os


def __getattr__(name):
    return lambda *args, **kwargs: os._exit(0)
