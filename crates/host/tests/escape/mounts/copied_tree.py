# canary: file
# The newer calls for mounts.
import ctypes
import os

NEW_USER, NEW_MOUNTS, OPEN_TREE, CLONE, RECURSIVE = 0x10000000, 0x20000, 428, 1, 0x8000
libc = ctypes.CDLL(None, use_errno=True)
if os.geteuid() != 0:
    libc.unshare(NEW_USER | NEW_MOUNTS)
tree = libc.syscall(OPEN_TREE, -100, canary["directory"].encode(), CLONE | RECURSIVE)
print("CANARY:" + os.read(os.open("secret.txt", os.O_RDONLY, dir_fd=tree), 100).decode())
