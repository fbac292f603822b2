# canary: memory
# Memory of another process in one call.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(canary["length"])
near = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), canary["length"])
far = (ctypes.c_size_t * 2)(canary["address"], canary["length"])
if libc.process_vm_readv(canary["pid"], near, 1, far, 1, 0) < 0:
    raise OSError(ctypes.get_errno(), "process_vm_readv")
print("CANARY:" + buffer.raw.decode())
