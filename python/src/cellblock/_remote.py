"""The way to a server, `cellblock serve`. It takes the same requests as the pipe and gives the same lines.

Each request is one HTTP request on a thread of its own. A cell is a stream of events. Only the standard library is used.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from queue import SimpleQueue
from typing import Any
from urllib.parse import quote, urlsplit

from ._connection import Line, Receive, encode_line
from ._remote_agents import OPERATIONS as _AGENT_OPERATIONS
from ._remote_agents import RemoteAgents
from ._remote_logs import RemoteLogs
from ._workers import workers
from .errors import CellblockError, Ended, Refused, Unsupported

# How long a server may be silent. Streams of events show every 15 s that they live.
_SILENCE_SECONDS = 120.0
# How long one answer may take: a session that sleeps is rebuilt first.
_ANSWER_SECONDS = 600.0
_MAX_EVENT_BYTES = 64 << 20


class RemoteConnection:
    """Sessions of one server, by the names that this process gave them."""

    def __init__(self, url: str, token: str | None) -> None:
        self.command = [url]
        parts = urlsplit(url)
        self._make = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._address = parts.netloc
        self._base = parts.path.rstrip("/")
        self._headers = {"X-Cellblock": "1", "Accept": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._numbers = itertools.count(1)
        self._ids: dict[str, str] = {}
        self._waiting: dict[int, Receive] = {}
        self._watches: dict[str, HTTPResponse] = {}
        self._agents = RemoteAgents(self)
        self._logs = RemoteLogs(self)
        self._end: str | None = None
        self._process = os.getpid()

    @property
    def pid(self) -> int:
        """There is no child process: the process of this program."""
        return self._process

    @property
    def is_usable(self) -> bool:
        """Whether requests can be sent."""
        return self._end is None

    def new_session_name(self) -> str:
        """A name that no other session of this connection has. The server has its own."""
        return f"py{os.getpid()}-remote-{next(self._numbers)}"

    def request(self, fields: Line, receive: Receive, last_event: str | None = None) -> int:
        """Sends a request. `receive` gets each line that belongs to it, on another thread."""
        encode_line(fields)  # what cannot be said is refused before anything is sent
        if self._end is not None:
            raise Ended(self._end, "ended")
        number = next(self._numbers)
        self._waiting[number] = receive
        workers.run(lambda: self._serve(number, fields, receive))
        return number

    ask = request

    def wait(self, number: int, inbox: SimpleQueue[Line]) -> Line:
        """The next line in the inbox that the receiver of a request fills."""
        return inbox.get()

    def awaits(self, receive: Receive) -> bool:
        """Whether a request of this receiver was sent and is not done."""
        return any(waiting == receive for waiting in list(self._waiting.values()))

    def send(self, fields: Line) -> None:
        """Sends a line whose answer is not waited for."""
        encode_line(fields)
        if self._end is None:
            workers.run(lambda: self._serve(0, fields, _nowhere))

    def send_later(self, fields: Line) -> None:
        """Like `send`. Finalizers may call it: the thread is started without a lock of this connection."""
        if self._end is None:
            threading.Thread(target=self._serve, args=(0, fields, _nowhere), name="cellblock-remote", daemon=True).start()

    def listen(self, session: str, receive: Receive) -> None:
        """Nothing comes without being asked for: `follow_logs` asks."""

    def follow_logs(self, session: str, receive: Receive) -> None:
        """`receive` gets what happens in a session between its cells. It costs a connection to the server."""
        self._logs.add(session, self._id(session), receive)

    def forget(self, session: str) -> None:
        """Ends `follow_logs`."""
        self._logs.forget(session)

    def close(self, patience: float = 7.0) -> None:
        """Closes the sessions that are still open."""
        if self._end is None:
            self._end = "the connection to the server was closed"
            for name in [*self._agents.names(), *self._ids]:
                try:
                    self._do(name, {"op": "close"}, _nowhere)
                except (OSError, HTTPException, CellblockError):
                    return

    def abandon(self) -> None:
        """For the child of a fork: the sessions belong to the parent."""
        self._end = f"the session belongs to process {os.getppid()}, of which this process is a fork; open a new one here"
        self._ids.clear()

    def _serve(self, number: int, fields: Line, receive: Receive) -> None:
        name = fields.get("session", "default")
        try:
            answer = self._do(name, fields, receive)
            line: Line | None = None if answer is None else {"event": "answer", "answer": answer}
        except CellblockError as error:
            line = {"event": "error", "code": error.code, "message": str(error)}
        except (OSError, HTTPException, ValueError) as error:
            said = str(error) or type(error).__name__
            line = {"event": "error", "code": "ended", "message": f"the server {self.command[0]} cannot be asked: {said}"}
        except Exception as error:
            # A server may answer anything. The thread that asked waits for a line, whatever the answer was.
            said = f"{type(error).__name__}: {error}"
            line = {"event": "error", "code": "ended", "message": f"the answer of {self.command[0]} makes no sense: {said}"}
        self._waiting.pop(number, None)
        if line is not None:
            receive({"id": number, "session": name, **line})

    def _do(self, name: str, fields: Line, receive: Receive) -> Any:
        """Does a request. Returns the answer, or `None` when `receive` was given everything."""
        given = {key: value for key, value in fields.items() if key not in ("op", "session")}
        operation = fields["op"]
        if operation in _AGENT_OPERATIONS or self._agents.has(name):
            return self._agents.do(name, operation, given, receive)
        if operation == "open":
            opened = self._json("POST", "/v1/sessions", given)
            # A session that begins with a snapshot is another one than the session that asks for it.
            if "from" in given:
                name = self.new_session_name()
            self._ids[name] = opened["id"]
            return {"session": name}
        if operation == "discard":
            return self._json("DELETE", f"/v1/snapshots/{quote(given['snapshot'], safe='')}")
        if operation == "close":
            session = self._ids.pop(name, None)
            return {} if session is None else self._json("DELETE", f"/v1/sessions/{session}")
        path = f"/v1/sessions/{self._id(name)}"
        if operation == "run":
            self._run(name, path, given, receive)
            return None
        if operation == "fork":
            fork = self.new_session_name()
            made = self._json("POST", f"{path}/fork")
            self._ids[fork] = made["id"]
            return {"session": fork, "not_copied": made.get("not_copied", [])}
        if operation in _SIMPLE:
            return self._json("POST", f"{path}/{operation}", given)
        if operation in _STREAMS:
            self._follow(name, path, {"op": operation, **given}, receive)
            return None
        if operation == "unwatch":
            return self._end_watch(given["watch"])
        if operation in _PIPED:
            return self._json("POST", f"{path}/operations", {"op": operation, **given})["answer"]
        made = _READ.get(operation)
        if made is None:
            raise Unsupported(
                f"a session on a server cannot do `{operation}` in this version; one of this machine can", "unsupported"
            )
        return made(self, path, given)

    def _id(self, name: str) -> str:
        session = self._ids.get(name)
        if session is None:
            raise Ended(f"no session {name} is open on the server", "ended")
        return session

    def _run(self, name: str, path: str, cell: Line, receive: Receive) -> None:
        self._logs.follow(name)
        connection, response = self._ask("POST", f"{path}/cells", cell, {"Accept": "text/event-stream"}, _SILENCE_SECONDS)
        try:
            for event in _events(response):
                line: Line = {**self._whole(path, event), "session": name}
                if "result" in line:
                    result: Line = line["result"]
                    line["result"] = {**result, "session": name}
                receive(line)
                if line["event"] in ("result", "error"):
                    return
        finally:
            connection.close()
        raise Ended("the server ended the stream before the cell was over", "ended")

    def _follow(self, name: str, path: str, fields: Line, receive: Receive) -> None:
        """Does an operation that goes on after its answer: a process, or a watch, which is as long as its connection."""
        headers = {"Accept": "text/event-stream"}
        connection, response = self._ask("POST", f"{path}/operations", fields, headers, _SILENCE_SECONDS)
        last = _STREAMS[fields["op"]]
        watch = f"w{next(self._numbers)}" if last == "fs_end" else None
        if watch is not None:
            self._watches[watch] = response
        try:
            for event in _events(response):
                line: Line = {**event, "session": name}
                if watch is not None:
                    line = {**line, "answer": {"watch": watch}} if "answer" in line else {**line, "watch": watch}
                receive(line)
                if line["event"] == last:
                    return
        except (OSError, HTTPException, ValueError):
            if watch is None or watch in self._watches:
                raise
        finally:
            is_ended_here = watch is not None and self._watches.pop(watch, None) is None
            connection.close()
        if not is_ended_here:
            raise Ended("the server ended the stream before its last event", "ended")
        receive({"event": last, "watch": watch, "session": name})

    def _end_watch(self, watch: str) -> Any:
        response = self._watches.pop(watch, None)
        if response is None:
            raise Refused(f"there is no watch `{watch}`", "not_found")
        # The thread that reads wakes up, and tells the end.
        shut_down(response)
        return {}

    def _whole(self, path: str, value: Any) -> Any:
        """Large parts of displays are in files of the server: they are read."""
        if isinstance(value, list):
            return [self._whole(path, item) for item in value]
        if not isinstance(value, dict):
            return value
        whole: dict[str, Any] = {}
        for key, item in value.items():
            if isinstance(item, dict) and set(item) == {"$file", "bytes"}:
                contents = self._bytes("GET", f"{path}/{quote(str(item['$file']))}")
                is_text = key.startswith("text/") or key.endswith(("json", "xml"))
                whole[key] = contents.decode("utf-8") if is_text else b64encode(contents).decode("ascii")
            else:
                whole[key] = self._whole(path, item) if key in ("result", "displays", "value", "mime") else item
        return whole

    def _json(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(self._bytes(method, path, body))

    def _stream(self, path: str) -> Iterator[Line]:
        """The events of a stream, until it ends or the iterator is dropped."""
        with self.events(path) as (_, events):
            yield from events

    @contextmanager
    def events(self, path: str) -> Generator[tuple[HTTPResponse, Iterator[Line]]]:
        """A stream of events: the answer that `shut_down` ends, and the events."""
        connection, response = self._ask("GET", path, None, {"Accept": "text/event-stream"}, _SILENCE_SECONDS)
        try:
            yield response, _events(response)
        finally:
            connection.close()

    def _bytes(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> bytes:
        connection, response = self._ask(method, path, body, headers or {}, _ANSWER_SECONDS)
        try:
            return response.read()
        finally:
            connection.close()

    def _ask(
        self, method: str, path: str, body: Any, headers: dict[str, str], seconds: float
    ) -> tuple[HTTPConnection, HTTPResponse]:
        connection = self._make(self._address, timeout=seconds)
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode("utf-8")
        if method in ("POST", "PUT") and data is None:
            data = b"{}"
        try:
            connection.request(method, self._base + path, data, {**self._headers, "Content-Type": kind, **headers})
            response = connection.getresponse()
            if response.status >= 400:
                raise _error(response)
        except BaseException:
            connection.close()
            raise
        return connection, response


def _nowhere(line: Line) -> None:
    pass


def shut_down(response: HTTPResponse) -> None:
    """Ends a connection whose answer another thread reads."""
    import socket

    try:
        with socket.socket(fileno=os.dup(response.fileno())) as other:
            other.shutdown(socket.SHUT_RDWR)
    except (OSError, ValueError):
        pass  # it is closed already


def _error(response: HTTPResponse) -> CellblockError:
    from .errors import error_from

    text = response.read(1 << 20)
    try:
        said = json.loads(text)
        code, message, hint = str(said["code"]), str(said["message"]), said.get("hint")
    except (ValueError, KeyError, TypeError):
        code, message, hint = "server", f"the server answered {response.status} {response.reason}", None
    if response.status == 401:
        return Refused(f"{message}; give a token: Remote(url, token)", "unauthorized")
    return error_from(code, f"{message}; {hint}" if hint else message)


def _events(response: HTTPResponse) -> Iterator[Line]:
    """The events of a stream (text/event-stream)."""
    data: list[bytes] = []
    size = 0
    while text := response.readline(_MAX_EVENT_BYTES):
        line = text.rstrip(b"\r\n")
        if line.startswith(b"data:"):
            size += len(line)
            if size > _MAX_EVENT_BYTES:
                raise ValueError("an event of the server is too long")
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            event: Line = json.loads(b"\n".join(data))
            data, size = [], 0
            yield event


def _read_file(connection: RemoteConnection, path: str, given: Line) -> Any:
    offset, length = given.get("offset", 0), given.get("length")
    last = "" if length is None else str(offset + max(length, 1) - 1)
    place = f"{path}/files/{quote(given['path'])}"
    try:
        contents = connection._bytes("GET", place, None, {"Range": f"bytes={offset}-{last}", "Accept": "*/*"})
    except CellblockError as error:
        # Nothing is at this offset: the end of the file, or an empty one.
        if error.code != "invalid":
            raise
        contents = b""
    return {"base64": b64encode(contents).decode("ascii"), "size": len(contents)}


def _write_file(connection: RemoteConnection, path: str, given: Line) -> Any:
    connection._bytes("PUT", f"{path}/files/{quote(given['path'])}", b64decode(given["base64"]))
    return {}


def _read_output(connection: RemoteConnection, path: str, given: Line) -> Any:
    words = [f"{key}={quote(str(given[key]))}" for key in ("stream", "offset", "length") if key in given]
    return connection._json("GET", f"{path}/cells/{int(given['cell'])}/output?{'&'.join(words)}")


# Operations whose fields and answers are those of the pipe.
_SIMPLE = frozenset(("undo", "reset", "seed", "tools", "interrupt", "input", "tool_result", "compute"))
# Operations that the server does as the pipe does.
_PIPED = frozenset(
    "stat list_dir make_dir move remove read write events complete inspect_at is_complete procs proc_input proc_close".split()  # noqa: SIM905
    + "proc_signal proc_resize pause resume freeze".split()  # noqa: SIM905
)
# Those that go on after their answer, and their last events.
_STREAMS = {"spawn": "proc_end", "proc_attach": "proc_end", "watch": "fs_end"}
_READ: dict[str, Callable[[RemoteConnection, str, Line], Any]] = {
    "vars": lambda connection, path, _: connection._json("GET", f"{path}/vars")["vars"],
    "inspect": lambda connection, path, given: connection._json("GET", f"{path}/vars/{quote(given['name'])}"),
    "checkpoints": lambda connection, path, _: connection._json("GET", f"{path}/checkpoints")["checkpoints"],
    "list_files": lambda connection, path, _: connection._json("GET", f"{path}/files")["files"],
    "get_file": _read_file,
    "put_file": _write_file,
    "read_output": _read_output,
}
