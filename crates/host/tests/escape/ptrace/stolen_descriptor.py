# canary: descriptor
# Take an open file out of another process.
import ctypes
import os

PIDFD_OPEN, PIDFD_GETFD = 434, 438
libc = ctypes.CDLL(None, use_errno=True)
process = libc.syscall(PIDFD_OPEN, canary["pid"], 0)
print("CANARY:" + os.pread(libc.syscall(PIDFD_GETFD, process, canary["descriptor"], 0), 100, 0).decode())
