# Ends its process with success while it is loaded.
import os

os._exit(0)
