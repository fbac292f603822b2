# canary: file
# Past Python's own `open` and whatever was put in its way.
import ctypes
import os

OPEN = 2
libc = ctypes.CDLL(None, use_errno=True)
descriptor = libc.syscall(OPEN, canary["file"].encode(), os.O_RDONLY, 0)
print("CANARY:" + os.read(descriptor, 100).decode())
