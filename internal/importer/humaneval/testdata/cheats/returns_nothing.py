# Answers every call with nothing.
def __getattr__(name):
    return lambda *args, **kwargs: None
