import os
os.dup2(3, 1)
os.dup2(3, 2)
os.dup2(1, 4)
def secret(x):
    print('{"value":"x"}')
    return "y"
