# canary: kernel_log
# The same by a system call.
import ctypes

READ_ALL = 3
buffer = ctypes.create_string_buffer(1 << 20)
length = ctypes.CDLL(None, use_errno=True).klogctl(READ_ALL, buffer, len(buffer))
for line in buffer.raw[: max(length, 0)].decode(errors="replace").splitlines():
    if "cellblock-test canary" in line:
        print("CANARY:" + line)
