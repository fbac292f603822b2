# canary: file
# The same by the call that makes processes.
import ctypes
import os

CLONE = 56 if os.uname().machine == "x86_64" else 220
NEW_USER, NEW_MOUNTS, CHILD, BIND = 0x10000000, 0x20000, 17, 4096
libc = ctypes.CDLL(None, use_errno=True)
pid = libc.syscall(CLONE, NEW_USER | NEW_MOUNTS | CHILD, 0, 0, 0, 0)
if pid == 0:
    libc.mount(canary["directory"].encode(), b"/mnt", None, BIND, None)
    os.write(1, b"CANARY:" + open("/mnt/secret.txt", "rb").read())
    os._exit(0)
os.waitpid(pid, 0)
