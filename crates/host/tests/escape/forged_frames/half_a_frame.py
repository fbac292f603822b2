# status: timeout
# costs: the host memory
# A frame that never ends.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


import time

os.write(3, (30 << 20).to_bytes(4, "little") + b"{")
time.sleep(60)
