# canary: mailbox_gone
# The same for one of POSIX.
import ctypes

librt = ctypes.CDLL("librt.so.1", use_errno=True)
if librt.mq_unlink(canary["own_mailbox"].encode()) < 0:
    raise OSError(ctypes.get_errno(), "mq_unlink")
