# canary: queue
# A queue of System V.
import ctypes

IPC_NOWAIT = 0o4000
libc = ctypes.CDLL(None, use_errno=True)
message = ctypes.create_string_buffer(100)
if libc.msgrcv(canary["queue"], message, 90, 0, IPC_NOWAIT) < 0:
    raise OSError(ctypes.get_errno(), "msgrcv")
print("CANARY:" + message.raw[8:40].decode())
