# status: success timeout crashed
# costs: the host memory
# seconds: 20
# reader: late
# Log events wait for a reader that does not read yet.
import os


def send(body):
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


text = b"x" * (1 << 20)
for _ in range(300):
    send(b'{"t":"log","text":"%s"}' % text)
