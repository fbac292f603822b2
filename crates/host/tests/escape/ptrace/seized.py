# canary: memory
# Attached without stopping it; that opens its memory file.
import ctypes
import os

SEIZE = 0x4206
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(SEIZE, canary["pid"], None, None) != 0:
    raise OSError(ctypes.get_errno(), "ptrace")
memory = os.open(f"/proc/{canary['pid']}/mem", os.O_RDONLY)
print("CANARY:" + os.pread(memory, canary["length"], canary["address"]).decode())
