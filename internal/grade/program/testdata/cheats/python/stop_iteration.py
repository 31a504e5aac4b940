class Stop(StopIteration): pass
def secret(x): raise Stop
