# canary: mailbox
# A queue of POSIX.
import ctypes
import os

rt = ctypes.CDLL("librt.so.1", use_errno=True)
mailbox = rt.mq_open(canary["mailbox"].encode(), os.O_RDONLY | os.O_NONBLOCK)
letter = ctypes.create_string_buffer(1 << 16)
if rt.mq_receive(mailbox, letter, len(letter), None) < 0:
    raise OSError(ctypes.get_errno(), "mq_receive")
print("CANARY:" + letter.value.decode())
