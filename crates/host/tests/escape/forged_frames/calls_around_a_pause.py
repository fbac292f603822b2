# status: success failure timeout crashed
# costs: the host memory
# pause: between the cells
# Calls by a thread that reads no answer, while the session is paused and goes on.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


import threading


def call():
    number = 0
    while True:
        number += 1
        send({"t": "tool_call", "call": f"c{number}" + "x" * 4000, "name": "lookup", "arguments": {}})
        send({"t": "input_request", "call": f"i{number}", "prompt": "x" * 4000})


threading.Thread(target=call, daemon=True).start()
