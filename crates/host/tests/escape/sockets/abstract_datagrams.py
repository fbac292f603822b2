# canary: abstract_datagrams
# The same without a connection.
import socket

wire = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
wire.bind("")
wire.settimeout(3)
wire.sendto(b"hello", "\0" + canary["abstract_datagrams"])
print("CANARY:" + wire.recv(100).decode())
