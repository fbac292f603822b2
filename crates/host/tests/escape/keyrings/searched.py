# canary: key
# A key in the keyring that every child inherits.
import ctypes
import os

KEYCTL = 250 if os.uname().machine == "x86_64" else 219
SEARCH, READ, SESSION_KEYRING = 10, 11, -3
libc = ctypes.CDLL(None, use_errno=True)
key = libc.syscall(KEYCTL, SEARCH, SESSION_KEYRING, b"user", canary["key"].encode(), 0)
payload = ctypes.create_string_buffer(100)
if libc.syscall(KEYCTL, READ, key, payload, len(payload)) < 0:
    raise OSError(ctypes.get_errno(), "keyctl")
print("CANARY:" + payload.value.decode())
