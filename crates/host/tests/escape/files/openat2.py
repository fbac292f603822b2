# canary: file
# The newest way to open a file.
import ctypes
import os

OPENAT2 = 437
libc = ctypes.CDLL(None, use_errno=True)
how = (ctypes.c_uint64 * 3)(os.O_RDONLY, 0, 0)
descriptor = libc.syscall(OPENAT2, -100, canary["file"].encode(), how, ctypes.sizeof(how))
print("CANARY:" + os.read(descriptor, 100).decode())
