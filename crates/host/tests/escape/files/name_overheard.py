# canary: name
# Hear what files the user makes.
import ctypes
import os
import select

IN_NONBLOCK, IN_CREATE = 0o4000, 0x100
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(IN_NONBLOCK)
if watch < 0 or libc.inotify_add_watch(watch, canary["names"].encode(), IN_CREATE) < 0:
    raise OSError(ctypes.get_errno(), "inotify")
select.select([watch], [], [], 3)
print("CANARY:" + os.read(watch, 1000)[16:].split(b"\0")[0].decode())
