# canary: shared
# Leave a file in the host's shared memory.
from multiprocessing import shared_memory

name = canary["shared"].removeprefix("/dev/shm/")
memory = shared_memory.SharedMemory(name, create=True, size=100)
memory.buf[: len(canary["mark"])] = canary["mark"].encode()
