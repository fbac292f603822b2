# canary: tcp
# needs: root
# Join its network.
import ctypes
import os
import socket

libc = ctypes.CDLL(None, use_errno=True)
libc.setns(os.open(f"/proc/{canary['host']}/ns/net", os.O_RDONLY), 0)
print("CANARY:" + socket.create_connection(("127.0.0.1", canary["tcp"]), 3).recv(100).decode())
