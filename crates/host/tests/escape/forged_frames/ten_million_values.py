# status: crashed
# costs: the host memory
# seconds: 20
# A frame of the largest size whose values would take a gigabyte.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


send(b'{"t":"display","mime":{"x":[' + b"[]," * 10_000_000 + b"[]]}}")
