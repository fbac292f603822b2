# status: success crashed
# A good end is claimed before a bad one. The claim may be believed; what comes after it must be clear all the same.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


send({"t": "done", "cell": cell, "ok": True, "value": None})
os.abort()
