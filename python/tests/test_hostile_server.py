"""A server that answers nonsense: the caller is told so, and never waits for an answer that cannot come."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import cellblock
from cellblock import Remote, Session

DEEP = b"[" * 200_000


class Nonsense(BaseHTTPRequestHandler):
    """Answers the first request (`open`) with `opened`, and cells with the stream `events`."""

    opened = b'{"id": "s"}'
    events = b""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = self.events if self.path.endswith("/cells") else self.opened
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_DELETE = do_POST

    def log_message(self, *words):
        pass


@pytest.fixture
def nonsense(monkeypatch):
    """The class whose answers a test sets, and the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Nonsense)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield lambda name, value: monkeypatch.setattr(Nonsense, name, value), f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def raised_in_time(job) -> str:
    """The error that a job ends with. A job that hangs has none."""
    said = []

    def run():
        try:
            job()
        except cellblock.CellblockError as error:
            said.append(str(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert said, "it ended without an error" if not thread.is_alive() else "it waits for ever"
    return said[0]


@pytest.mark.parametrize("answer", [b"{}", b"[]", b"null", b"3", b"", b'"\xff"', DEEP])
def test_an_answer_to_open(nonsense, answer):
    set_answer, url = nonsense
    set_answer("opened", answer)
    assert url in raised_in_time(lambda: Session(host=Remote(url, "t")))


EVENTS = [b"{}", b"[]", b"null", DEEP, b'{"event": "result"}', b'{"event": "result", "result": 3}', b'{"event": "tool_call"}']


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event[:30].decode())
def test_an_event_of_a_cell(nonsense, event):
    set_answer, url = nonsense
    set_answer("events", b"data: " + event + b"\n\n")
    session = Session(host=Remote(url, "t"))
    assert raised_in_time(lambda: session.run("1"))
