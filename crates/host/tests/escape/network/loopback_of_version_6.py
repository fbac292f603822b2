# canary: tcp6
# The other loopback.
import socket

print("CANARY:" + socket.create_connection(("::1", canary["tcp6"]), 3).recv(100).decode())
