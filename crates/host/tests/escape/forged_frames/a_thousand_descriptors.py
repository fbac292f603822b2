# status: success
# Open files that come with a frame are the host's to close.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


import socket
import time

wire = socket.socket(fileno=os.dup(3))
pairs = [os.pipe() for _ in range(7)]
body = json.dumps({"t": "answer", "seq": 0}).encode()
for _ in range(1000):
    frame = len(body).to_bytes(4, "little") + body
    try:
        socket.send_fds(wire, [frame], [end for pair in pairs for end in pair])
    except OSError:  # too many are on their way
        time.sleep(0.002)
