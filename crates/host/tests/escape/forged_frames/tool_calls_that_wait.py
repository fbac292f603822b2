# status: success timeout crashed
# costs: the host memory
# seconds: 20
# reader: late
# Calls wait in the queue of a reader that does not read yet: each of many small values.
import os


def send(body):
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


values = b"0," * 240_000 + b"0"
for number in range(12):
    send(b'{"t":"tool_call","call":"c%d","name":"lookup","arguments":{"values":[%s]}}' % (number, values))
