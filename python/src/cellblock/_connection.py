"""One running `cellblock pipe`: a child process, the reader of its lines, and a thread that writes long ones.

Nothing here knows what a session is. A request has an id; every line that comes back with this id goes to the function that
the request brought along. That function is called by the thread that reads, so it must be short and must never write. It may get
its last line twice, when Ctrl-C comes while it is called.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue

from ._reader import Line as Line
from ._reader import LineReader
from .errors import BinaryError, Ended

Receive = Callable[[Line], None]

# Longer lines than the program reads are refused here, with the same words.
MAX_LINE_BYTES = 16_000_000
# A write of at most this many bytes to a pipe is done whole or not at all, also when Ctrl-C comes in the middle.
_ATOMIC_BYTES = 4096
_LAST_EVENTS = frozenset(("answer", "result", "error"))
_STDERR_SHOWN = 2000
_quote = json.encoder.encode_basestring_ascii
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode


class Connection:
    """A child process `cellblock pipe`, and the way to it. It ends when `close` is called or when this process ends."""

    def __init__(self, command: list[str]) -> None:
        import subprocess

        self.command = command
        self._stderr = os.memfd_create("cellblock-stderr", os.MFD_CLOEXEC)
        # Plain descriptors, which nothing but this class closes: after a fork, file objects could not be closed safely.
        child_input, self._input = os.pipe()
        self._output, child_output = os.pipe()
        try:
            self._child = subprocess.Popen(
                command,
                stdin=child_input,
                stdout=child_output,
                stderr=self._stderr,
                # Ctrl-C at a terminal goes to the whole process group: the child would close every session.
                start_new_session=True,
            )
        except OSError as error:
            self._close_descriptors()
            raise BinaryError(f"{command[0]} does not start: {error}", "binary") from None
        finally:
            os.close(child_input)
            os.close(child_output)
        #: The environment that the child was started with.
        self.environment = dict(os.environ)
        self._ids = count(1)
        self._names = count(1)
        self._receivers: dict[int, Receive] = {}
        # The requests that go on after their answer, and what ends them.
        self._last_events: dict[int, frozenset[str]] = {}
        self._listeners: dict[str, Receive] = {}
        # A signal handler may ask something right after its thread has written a line.
        self._write_lock = threading.RLock()
        self._later: SimpleQueue[tuple[bytes, bool] | None] = SimpleQueue()
        # Lines of `_write` that were given to the other thread, and how many of them it has written.
        self._handed_over = 0
        self._written = 0
        self._end: str | None = None
        self._is_closed = False
        self._reader = LineReader(self._output, self._dispatch, self._receivers, self._tell_end)
        threading.Thread(target=self._write_later, name="cellblock-writer", daemon=True).start()

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self._child.pid

    @property
    def is_usable(self) -> bool:
        """Whether requests can be sent."""
        return self._end is None

    def new_session_name(self) -> str:
        """A name that no other session has: neither in the child nor, for a while, among the journals of this user."""
        return f"py{os.getpid()}-{self.pid}-{next(self._names)}"

    def request(self, fields: Line, receive: Receive, last_event: str | None = None) -> int:
        """Sends a request. `receive` gets each line that belongs to it, the last of which is an answer, a result or an error.

        With `last_event`, lines come after the answer too, until this event or an error. Gives the number of the request.
        """
        number = self._request(fields, receive, last_event)
        self._reader.call()
        return number

    def ask(self, fields: Line, receive: Receive) -> int:
        """Like `request`, for a caller that calls `wait` at once."""
        return self._request(fields, receive, None)

    def wait(self, number: int, inbox: SimpleQueue[Line]) -> Line:
        """The next line in the inbox that the receiver of a request fills. It is read on this thread where no other one reads."""
        if inbox.empty():
            self._reader.read_for(number, inbox)
        return inbox.get()

    def _request(self, fields: Line, receive: Receive, last_event: str | None) -> int:
        number = next(self._ids)
        line = _request_line(number, fields)
        if self._end is not None:
            raise Ended(self._end, "ended")
        if last_event is not None:
            self._last_events[number] = frozenset((last_event, "error"))
        self._receivers[number] = receive
        # The reader may have come to the end between the look above and here, and would not see this receiver.
        if self._end is not None:
            self._receivers.pop(number, None)
            self._last_events.pop(number, None)
            raise Ended(self._end, "ended")
        self._write(line)
        return number

    def awaits(self, receive: Receive) -> bool:
        """Whether a request of this receiver was sent and is not done."""
        return any(waiting == receive for waiting in list(self._receivers.values()))

    def send(self, fields: Line) -> None:
        """Sends a line that has no answer, or whose answer is not waited for. A child that is gone makes no error."""
        if self._end is None:
            self._write(encode_line(fields))

    def send_later(self, fields: Line) -> None:
        """Like `send`, on another thread. It takes no lock, so finalizers may call it at any moment."""
        if self._end is None:
            self._later.put((encode_line(fields), False))

    def listen(self, session: str, receive: Receive) -> None:
        """`receive` gets the lines of a session that belong to no request: what its threads print between cells."""
        self._listeners[session] = receive

    def follow_logs(self, session: str, receive: Receive) -> None:
        """For connections to servers: here they come by `listen`."""

    def forget(self, session: str) -> None:
        """Ends `listen`."""
        self._listeners.pop(session, None)

    def close(self, patience: float = 7.0) -> None:
        """Ends the child with all its sessions, whatever they do. Returns when it is gone."""
        if self._is_closed:
            return
        self._is_closed = True
        self._end = self._end or "the host of this session was closed"
        self._later.put(None)
        self._end_child(patience)

    def abandon(self) -> None:
        """For the child of a fork: the connection belongs to the parent. Only our copies of its files are closed."""
        self._is_closed = True
        self._end = f"the session belongs to process {os.getppid()}, of which this process is a fork; open a new one here"
        self._write_lock = threading.RLock()
        self._later = SimpleQueue()
        self._reader.abandon()
        self._receivers.clear()
        self._listeners.clear()
        self._close_descriptors()
        # `Popen.__del__` would warn of a child that still runs: it is not a child of this process.
        self._child.returncode = 0

    def _close_descriptors(self) -> None:
        for descriptor in (self._input, self._output, self._stderr):
            if descriptor >= 0:
                os.close(descriptor)
        self._input = self._output = self._stderr = -1

    def _end_child(self, patience: float) -> None:
        import subprocess

        child = self._child
        if child.poll() is None:
            # SIGTERM closes the sessions at once, while the end of the input would first let every cell end.
            child.terminate()
            try:
                child.wait(patience)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def _write(self, line: bytes) -> None:
        try:
            with self._write_lock:
                # On another thread, because an exception by a signal in the middle would leave half a line. What comes after a
                # line that waits there waits too: an interrupt must reach its own cell, and not the next one.
                if len(line) > _ATOMIC_BYTES or self._handed_over > self._written:
                    self._handed_over += 1
                    self._later.put((line, True))
                    return
                os.write(self._input, line)
        except OSError:
            # The reader finds out why and tells everyone who waits.
            pass

    def _write_later(self) -> None:
        while (waiting := self._later.get()) is not None:
            line, is_in_order = waiting
            view = memoryview(line)
            try:
                with self._write_lock:
                    while view:
                        view = view[os.write(self._input, view) :]
                    self._written += is_in_order
            except OSError:
                return

    def _dispatch(self, line: Line) -> None:
        number = line["id"]
        if number is None:
            listener = self._listeners.get(line["session"] or "")
            if listener is not None:
                listener(line)
            return
        receive = self._receivers.get(number)
        if receive is not None:
            receive(line)
        # After the call: where Ctrl-C comes in the middle of it, the line is given again.
        if line["event"] in self._last_events.get(number, _LAST_EVENTS):
            self._receivers.pop(number, None)
            self._last_events.pop(number, None)

    def _tell_end(self) -> None:
        """The child ended or closed its output: everyone who waits is told, and so are later requests."""
        if self._end is None:
            self._end = self._why_it_ended()
        gone: Line = {"event": "error", "code": "ended", "message": self._end}
        while self._receivers:
            try:
                _, receive = self._receivers.popitem()
            except KeyError:
                break
            receive(gone)
        self._later.put(None)
        with self._write_lock:
            self._close_descriptors()

    def _why_it_ended(self) -> str:
        import subprocess

        try:
            status = self._child.wait(5)
        except subprocess.TimeoutExpired:
            self._child.kill()
            status = self._child.wait()
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        said = self._last_words()
        words = f"; it said: {said}" if said else ""
        return f"the process `{' '.join(self.command)}` that held the session {how}{words}"

    def _last_words(self) -> str:
        try:
            size = os.fstat(self._stderr).st_size
            text = os.pread(self._stderr, _STDERR_SHOWN, max(0, size - _STDERR_SHOWN))
        except OSError:
            return ""
        return text.decode("utf-8", "replace").strip()


def _request_line(number: int, fields: Line) -> bytes:
    if len(fields) == 3 and fields["op"] == "run":
        # The request that is made most often, in a third of the time that the encoder takes to be set up.
        try:
            text = f'{{"id":{number},"op":"run","session":{_quote(fields["session"])},"code":{_quote(fields["code"])}}}\n'
        except TypeError:
            pass  # the encoder says what is wrong
        else:
            if len(text) <= _ATOMIC_BYTES:
                return text.encode("ascii")
    return encode_line({"id": number, **fields})


def encode_line(fields: Line) -> bytes:
    """A request as the line that is sent. Raises `ValueError` or `TypeError` for what JSON cannot say."""
    text = _encode(fields)
    if len(text) >= MAX_LINE_BYTES:
        raise ValueError(f"the request has {len(text)} bytes as JSON, and at most {MAX_LINE_BYTES} can be sent at once")
    return text.encode("ascii") + b"\n"
