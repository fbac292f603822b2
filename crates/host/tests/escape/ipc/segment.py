# canary: segment
# Shared memory of System V.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
address = libc.shmat(canary["segment"], None, 0o10000)
if address in (None, 2**64 - 1):
    raise OSError(ctypes.get_errno(), "shmat")
print("CANARY:" + ctypes.string_at(address, 32).decode())
