# canary: death
# The call for one thread.
import ctypes
import os

TKILL = 200 if os.uname().machine == "x86_64" else 130
ctypes.CDLL(None).syscall(TKILL, canary["victim"], 9)
