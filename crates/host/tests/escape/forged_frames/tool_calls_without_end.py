# status: success timeout crashed
# costs: the host memory
# seconds: 20
# Calls whose arguments the host would have to remember.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


import select
import threading


def swallow():
    """Take the host's answers, or it would stop reading."""
    while select.select([3], [], [], 1)[0]:
        os.read(3, 1 << 20)


answers = threading.Thread(target=swallow)
answers.start()
query = b"x" * (16 << 20)
for number in range(12):
    send(b'{"t":"tool_call","call":"c%d","name":"lookup","arguments":{"query":"%s"}}' % (number, query))
answers.join()
