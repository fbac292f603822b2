# canary: file
# Make the host's directory our root.
import ctypes
import os

NEW_USER, NEW_MOUNTS, BIND, PRIVATE, RECURSIVE, DETACH = 0x10000000, 0x20000, 4096, 1 << 18, 16384, 2
PIVOT_ROOT = 155 if os.uname().machine == "x86_64" else 41
libc = ctypes.CDLL(None, use_errno=True)
if os.fork() == 0:
    if libc.unshare(NEW_USER | NEW_MOUNTS) == 0:
        libc.mount(b"none", b"/", None, PRIVATE | RECURSIVE, None)
        libc.mount(canary["directory"].encode(), b"/mnt", None, BIND, None)
        os.chdir("/mnt")
        libc.syscall(PIVOT_ROOT, b".", b".")
        os.write(1, b"CANARY:" + open("/secret.txt", "rb").read())
    os._exit(0)
os.wait()
