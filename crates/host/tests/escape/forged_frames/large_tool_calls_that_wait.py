# status: success timeout crashed
# costs: the host memory
# seconds: 20
# reader: late
# Calls wait in the queue of a reader that does not read yet: each as large as a frame may be.
import os


def send(body):
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


query = b"x" * (16 << 20)
for number in range(12):
    send(b'{"t":"tool_call","call":"c%d","name":"lookup","arguments":{"query":"%s"}}' % (number, query))
