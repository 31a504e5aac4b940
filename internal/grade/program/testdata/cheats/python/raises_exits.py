class Quiet(SystemExit): code = 0
def secret(x): raise Quiet(0)
