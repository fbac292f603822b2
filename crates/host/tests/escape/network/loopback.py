# canary: tcp
# A service of the machine that only listens to the machine itself.
import socket

print("CANARY:" + socket.create_connection(("127.0.0.1", canary["tcp"]), 3).recv(100).decode())
