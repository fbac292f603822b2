# canary: neighbour
# The same on a socket with a name that is in no directory.
import socket

wire = socket.socket(socket.AF_UNIX)
wire.connect("\0" + canary["neighbour_socket"])
print("CANARY:" + wire.recv(100).decode())
