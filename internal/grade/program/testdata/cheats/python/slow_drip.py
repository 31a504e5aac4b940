import os
import time
def secret(x):
    while True:
        os.write(3, b" ")
        time.sleep(0.01)
