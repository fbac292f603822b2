# status: crashed
# costs: the host memory
# A frame that announces more than anyone can hold.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


os.write(3, b"\xff\xff\xff\xff" + b"x" * 1000)
