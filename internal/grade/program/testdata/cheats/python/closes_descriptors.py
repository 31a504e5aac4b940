import os
os.closerange(0, 1024)
def secret(x): return 1
