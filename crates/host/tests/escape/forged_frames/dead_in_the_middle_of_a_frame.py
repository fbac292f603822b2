# status: crashed
# signal: 6
# Half a claim does not make the crash less of one.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


frame = json.dumps({"t": "done", "cell": cell, "ok": True, "value": None}).encode()
os.write(3, len(frame).to_bytes(4, "little") + frame[:-1])
os.abort()
