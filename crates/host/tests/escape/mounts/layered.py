# canary: file
# A file system that is laid over the host's directory.
import ctypes
import os

NEW_USER, NEW_MOUNTS = 0x10000000, 0x20000
libc = ctypes.CDLL(None, use_errno=True)
libc.unshare(NEW_USER | NEW_MOUNTS)
os.mkdir("empty")
options = f"lowerdir={canary['directory']}:empty".encode()
if libc.mount(b"overlay", b"/mnt", b"overlay", 1, options) != 0:
    raise OSError(ctypes.get_errno(), "mount")
print("CANARY:" + open("/mnt/secret.txt").read())
