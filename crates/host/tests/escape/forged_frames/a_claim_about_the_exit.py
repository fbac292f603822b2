# status: crashed
# exit: 139
# The host asks the kernel how a process ended, not the process.
import json
import os


def send(frame):
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    data = len(body).to_bytes(4, "little") + body
    while data:
        data = data[os.write(3, data) :]


send({"t": "done", "cell": cell + 7, "ok": True, "exit_code": 0, "signal": None, "status": "success"})
os._exit(139)
