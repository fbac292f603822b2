# canary: file
# Map it instead of reading it.
import mmap
import os

descriptor = os.open(canary["file"], os.O_RDONLY)
print("CANARY:" + mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)[:].decode())
