# canary: file
# The same by its successor, whose flags no filter can read.
import ctypes
import os

CLONE3, NEW_USER, NEW_MOUNTS, CHILD, BIND = 435, 0x10000000, 0x20000, 17, 4096
libc = ctypes.CDLL(None, use_errno=True)
how = (ctypes.c_uint64 * 8)(NEW_USER | NEW_MOUNTS, 0, 0, 0, CHILD)
pid = libc.syscall(CLONE3, how, ctypes.sizeof(how))
if pid == 0:
    libc.mount(canary["directory"].encode(), b"/mnt", None, BIND, None)
    os.write(1, b"CANARY:" + open("/mnt/secret.txt", "rb").read())
    os._exit(0)
os.waitpid(pid, 0)
