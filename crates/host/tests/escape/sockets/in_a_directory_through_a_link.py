# canary: socket
# The same through a link in the workspace.
import os
import socket

os.symlink(canary["socket"], "wire")
wire = socket.socket(socket.AF_UNIX)
wire.connect("wire")
print("CANARY:" + wire.recv(100).decode())
