# status: success
# The cell says that it has ended, and goes on: the next one finds nobody home, and must not wait for ever.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


import time

send({"t": "done", "cell": cell, "ok": True, "value": {"repr": "'forged'"}})
time.sleep(60)
