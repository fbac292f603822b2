# canary: death
# The call for one thread of a process.
import ctypes
import os

TGKILL = 234 if os.uname().machine == "x86_64" else 131
ctypes.CDLL(None).syscall(TGKILL, canary["victim"], canary["victim"], 9)
