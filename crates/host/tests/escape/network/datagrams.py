# canary: udp
# No connection, just a packet.
import socket

wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
wire.settimeout(3)
wire.sendto(b"hello", ("127.0.0.1", canary["udp"]))
print("CANARY:" + wire.recv(100).decode())
