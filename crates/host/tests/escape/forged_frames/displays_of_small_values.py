# status: success timeout crashed
# costs: the host memory
# seconds: 20
# A value takes two bytes in a frame and a hundred in memory.
import os


def send(body):
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


for _ in range(12):
    send(b'{"t":"display","mime":{"application/json":[' + b"0," * 240_000 + b"0]}}")
