# canary: neighbour
# A service that another session runs for itself.
import socket

print("CANARY:" + socket.create_connection(("127.0.0.1", canary["neighbour_port"]), 3).recv(100).decode())
