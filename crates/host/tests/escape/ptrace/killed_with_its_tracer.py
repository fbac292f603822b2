# canary: death
# A process dies with the one that traces it, if that one wishes so.
import ctypes
import os

SEIZE, EXIT_KILL = 0x4206, 0x100000
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
if os.fork() == 0:
    libc.ptrace(SEIZE, canary["victim"], None, EXIT_KILL)
    os._exit(0)
os.wait()
