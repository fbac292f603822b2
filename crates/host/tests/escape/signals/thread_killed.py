# canary: death
# The call for one thread.
import ctypes

TKILL = 200
ctypes.CDLL(None).syscall(TKILL, canary["victim"], 9)
