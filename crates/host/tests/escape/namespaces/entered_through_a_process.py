# canary: tcp
# needs: root
# Join whatever a process is in.
import ctypes
import os
import socket

NEW_NETWORK = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
libc.setns(os.pidfd_open(canary["host"]), NEW_NETWORK)
print("CANARY:" + socket.create_connection(("127.0.0.1", canary["tcp"]), 3).recv(100).decode())
