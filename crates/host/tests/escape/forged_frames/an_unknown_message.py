# status: crashed
# A message of a kind that there is not.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


send({"t": "verdict", "status": "success", "exit_code": 0})
