# status: crashed
# The right message with the wrong things in it.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


send({"t": "done", "cell": "seven", "ok": 1, "value": [], "error": "none"})
