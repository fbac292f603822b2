# status: success
# The host is handed other things than the channel of a copy.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


import socket

wire = socket.socket(fileno=os.dup(3))
body = json.dumps({"t": "answer", "seq": 0}).encode()
for path in ("/dev/zero", "/dev/full", "."):
    frame = len(body).to_bytes(4, "little") + body
    socket.send_fds(wire, [frame], [os.open(path, os.O_RDONLY)])
