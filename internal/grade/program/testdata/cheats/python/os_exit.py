import os
def secret(x): os._exit(0)
