# canary: file
# needs: root
# Join the mounts of the process that holds our session.
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
if os.fork() == 0:
    libc.setns(os.open(f"/proc/{canary['host']}/ns/mnt", os.O_RDONLY), 0)
    os.write(1, b"CANARY:" + open(canary["file"], "rb").read())
    os._exit(0)
os.wait()
