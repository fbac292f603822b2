# canary: socket
# A socket in a directory, such as Docker's.
import socket

wire = socket.socket(socket.AF_UNIX)
wire.connect(canary["socket"])
print("CANARY:" + wire.recv(100).decode())
