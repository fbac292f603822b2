# canary: file
# Become root of a namespace of our own, and mount the host's directory into it.
import ctypes

NEW_USER, NEW_MOUNTS, BIND = 0x10000000, 0x20000, 4096
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(NEW_USER | NEW_MOUNTS) != 0:
    raise OSError(ctypes.get_errno(), "unshare")
libc.mount(canary["directory"].encode(), b"/mnt", None, BIND, None)
print("CANARY:" + open("/mnt/secret.txt").read())
