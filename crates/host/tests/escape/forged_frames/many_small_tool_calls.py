# status: success timeout crashed
# costs: the host memory
# So many that remembering them would be the harm.
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
for number in range(10_000):
    send({"t": "tool_call", "call": f"c{number}" + "x" * 400, "name": "lookup", "arguments": {}})
answers.join()
