# canary: visit
# The other way round: be a service that the host can reach.
import socket

door = socket.create_server(("127.0.0.1", canary["visit"]))
door.settimeout(2)
door.accept()[0].sendall(canary["mark"].encode())
