# status: success
# The answer to the next cell, before it was asked.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


send({"t": "done", "cell": cell + 1, "ok": False, "value": {"repr": "'forged'"}})
