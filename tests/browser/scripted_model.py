"""A model with prepared replies behind the protocol that providers speak, so that tests need no network.

The reply is chosen by a word of the question and by how many replies came before it.
"""

import itertools
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMPOUND = [
    "The formula is P * (1 + r / n) ** (n * t).\n\n```python\nprincipal = 15000\nprint(round(principal * (1 + 0.06 / 2) ** 12, 2))\n```",
    "After six years it is **21386.41**.",
]
PLOT = [
    "I read the table and plot it.\n\n```python\nimport csv\nrows = list(csv.DictReader(open('cities.csv')))\n"
    "import matplotlib.pyplot as plt\nfig, ax = plt.subplots(figsize=(5, 2.6))\n"
    "ax.bar([row['city'] for row in rows], [float(row['degrees']) for row in rows], color='#0d6e63')\n"
    "ax.set_title('Degrees')\nplt.show()\nopen('summary.txt', 'w').write(f'{len(rows)} cities')\n```",
    "There are three cities; **Rome** is the warmest. See [summary.txt](summary.txt).",
]
APPROVE = [
    "I send the report.\n\n```python\nsubject = 'Numbers'\nprint(send_report(to='all@example.org', subject=subject))\n```",
    "The report was sent.",
]
AGAIN = ["I look.\n\n```python\nprint(principal)\n```", "It is 15000."]
HANG = ["This takes long.\n\n```python\nimport time\nprint('begun', flush=True)\ntime.sleep(600)\n```", "Never reached."]
HOSTILE = ["Look at <script>document.title = 'owned'</script> and ![x](https://example.org/x.png) [y](javascript:alert(1))"]

HOST = ["I fetch it.\n\n```python\nimport urllib.error, urllib.request\ntry:\n    urllib.request.urlopen('http://localhost:9/')\nexcept urllib.error.HTTPError as error:\n    print(error.read().decode())\n```", "It cannot be reached."]

# The replies to one request differ: the best of them is taken.
LANES = [
    ["I divide.\n\n```python\nprint(1 / 0)\n```", "I multiply.\n\n```python\nprint(6 * 7)\n```", "I add.\n\n```python\nraise ValueError('no')\n```"],
    ["The second lane: **42**."],
]

REPLIES = {"lane": LANES, "Fetch": HOST, "still there": AGAIN, "compounded": COMPOUND, "cities": PLOT, "Send the report": APPROVE, "forever": HANG, "hostile": HOSTILE}

COUNTER = itertools.count()


def reply_to(messages):
    """The next prepared reply of a conversation."""
    last = max(i for i, message in enumerate(messages) if message["role"] == "user" and any(word in str(message["content"]) for word in REPLIES))
    question = str(messages[last]["content"])
    replies = next(replies for word, replies in REPLIES.items() if word in question)
    done = sum(1 for message in messages[last:] if message["role"] == "assistant")
    reply = replies[min(done, len(replies) - 1)]
    return reply if isinstance(reply, str) else reply[next(COUNTER) % len(reply)]


class Handler(BaseHTTPRequestHandler):
    """Answers `POST /v1/chat/completions` as a stream of small pieces."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Says nothing: the output of the tests is read by people."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = reply_to(body["messages"])
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            for start in range(0, len(text), 12):
                self.send({"choices": [{"index": 0, "delta": {"content": text[start : start + 12]}}]})
                time.sleep(0.01)
            usage = {"prompt_tokens": 900, "completion_tokens": len(text) // 4, "total_tokens": 900 + len(text) // 4}
            self.send({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")
        except BrokenPipeError:
            pass

    def send(self, chunk):
        """Sends one piece."""
        chunk = {"id": "x", "object": "chat.completion.chunk", "model": "scripted", **chunk}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()


def start():
    """Starts the model and returns the address of its API."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"
