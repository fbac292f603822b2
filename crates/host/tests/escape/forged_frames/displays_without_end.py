# status: success timeout crashed
# costs: the host memory
# seconds: 20
# More pictures than the host can hold.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


picture = b'{"t":"display","mime":{"text/plain":"%s"}}' % (b"x" * (16 << 20))
for _ in range(12):
    send(picture)
