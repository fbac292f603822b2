# canary: datagrams
# A pair of sockets is for ourselves; but a datagram goes wherever it is sent.
import os
import socket

wire, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
path = os.path.abspath("answers")
wire.bind(path)
os.chmod(path, 0o777)
wire.connect(canary["datagrams"])
wire.settimeout(3)
wire.send(b"hello")
print("CANARY:" + wire.recv(100).decode())
