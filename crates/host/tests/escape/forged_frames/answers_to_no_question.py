# status: success
# Answers that nobody waits for, and greetings.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


for number in range(1000):
    send({"t": "answer", "seq": number, "vars": []})
    send({"t": "ready", "python": "9.9.9", "pid": 1})
