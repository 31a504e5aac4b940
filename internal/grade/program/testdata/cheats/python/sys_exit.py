import sys
def secret(x): sys.exit(0)
