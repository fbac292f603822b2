# canary: death
# The call for one thread of a process.
import ctypes

TGKILL = 234
ctypes.CDLL(None).syscall(TGKILL, canary["victim"], canary["victim"], 9)
