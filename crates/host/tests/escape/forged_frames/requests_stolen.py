# status: success
# A thread reads what the host sends: the next cell never arrives, and must not wait for ever.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


import threading
import time


def steal():
    while os.read(3, 1 << 20):
        pass


threading.Thread(target=steal, daemon=True).start()
time.sleep(0.2)
