# canary: queue_gone
# Take a queue of System V away from those who use it.
import ctypes

IPC_RMID = 0
libc = ctypes.CDLL(None, use_errno=True)
if libc.msgctl(canary["own_queue"], IPC_RMID, None) < 0:
    raise OSError(ctypes.get_errno(), "msgctl")
