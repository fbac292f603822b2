# canary: segment
# The same, found by its key.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
address = libc.shmat(libc.shmget(canary["system_v_key"], 0, 0), None, 0o10000)
if address in (None, 2**64 - 1):
    raise OSError(ctypes.get_errno(), "shmat")
print("CANARY:" + ctypes.string_at(address, 32).decode())
