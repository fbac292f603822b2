# canary: inherited
# A file that the host has open.
import os

print("CANARY:" + os.pread(canary["inherited"], 100, 0).decode())
