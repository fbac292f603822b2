# status: success failure timeout crashed
# costs: the host memory
# pause: between the cells
# Claims about cells that come later, written by a thread that is stopped and goes on in the middle of them.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


import threading


def claim():
    number = cell
    while True:
        number = number + 1 if number < cell + 20 else cell
        send({"t": "done", "cell": number, "ok": True, "value": {"repr": "'forged'"}})
        send({"t": "answer", "seq": number, "vars": []})
        send({"t": "display", "data": {"text/plain": "x" * 100_000}})
        send({"t": "log", "text": "x" * 100_000})


threading.Thread(target=claim, daemon=True).start()
