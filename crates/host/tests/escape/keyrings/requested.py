# canary: key
# The call that finds a key wherever it is.
import ctypes
import os

REQUEST_KEY, KEYCTL = (249, 250) if os.uname().machine == "x86_64" else (218, 219)
READ = 11
libc = ctypes.CDLL(None, use_errno=True)
key = libc.syscall(REQUEST_KEY, b"user", canary["key"].encode(), None, 0)
payload = ctypes.create_string_buffer(100)
if libc.syscall(KEYCTL, READ, key, payload, len(payload)) < 0:
    raise OSError(ctypes.get_errno(), "keyctl")
print("CANARY:" + payload.value.decode())
