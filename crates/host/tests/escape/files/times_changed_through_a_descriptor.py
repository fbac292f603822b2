# canary: times
# The same, by a descriptor alone.
import ctypes
import os

AT_EMPTY_PATH = 0x1000
libc = ctypes.CDLL(None, use_errno=True)
if libc.utimensat(os.open(canary["marked"], os.O_PATH), b"", None, AT_EMPTY_PATH) < 0:
    raise OSError(ctypes.get_errno(), "utimensat")
