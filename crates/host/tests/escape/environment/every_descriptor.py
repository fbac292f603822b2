# canary: inherited
# The same without knowing which.
import os

for descriptor in range(3, 1024):
    try:
        print("CANARY:" + os.pread(descriptor, 100, 0).decode())
    except OSError:
        pass
