"""Reading the lines of a child process: on the thread that waits for an answer, or on a thread of its own.

A caller that reads its own answer need not be woken by another thread, which would take longer than a short cell itself.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable, Sized
from json import JSONDecoder
from queue import SimpleQueue
from typing import Any, Protocol

Line = dict[str, Any]

_CHUNK_BYTES = 64 << 10
# How long no caller has come when the thread goes on to read.
_STAND_BACK_SECONDS = 0.005
# How soon a caller sees that a signal handler on its own thread has read its line.
_LOOK_MILLISECONDS = 50
# What callers dispatch themselves. Ctrl-C may come between the dispatch of a line and the note that it was dispatched: the thread
# then dispatches it once more, which must do no harm.
_REPEATABLE = frozenset(("answer", "result", "error", "stdout", "stderr", "display", "clear_output", "comm", "restored"))
# Half the time of `json.loads`, which looks for other encodings and for what follows.
_decode = JSONDecoder().raw_decode


class Requests(Sized, Protocol):
    """The numbers of the requests that wait for lines."""

    def __contains__(self, number: object, /) -> bool: ...


class LineReader:
    """Gives each line that comes from a descriptor to `dispatch`, on one thread at a time.

    `requests` are those under way; `at_end` is called when no more lines come, and may be called twice. The thread of the reader
    reads whatever comes. After an answer it stands back for a moment, because the next request of the same caller is likely to
    come soon: this caller then reads on its own thread, as long as only answers to its request come.
    """

    def __init__(self, descriptor: int, dispatch: Callable[[Line], None], requests: Requests, at_end: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._readiness = _readiness(descriptor)
        self._dispatch = dispatch
        self._requests = requests
        self._at_end = at_end
        # Held while something is read and dispatched. One thread may have it twice: a signal handler may ask something, too.
        self._turn = threading.RLock()
        # At most one piece that was read and not split, the beginning of a line whose end has not come, and whole lines.
        self._unsplit: deque[bytes] = deque()
        self._begun: list[bytes] = []
        self._lines: deque[bytes] = deque()
        self._has_ended = False
        # Whether a caller has come since the thread looked last.
        self._has_callers = False
        # Whether the thread reads; else, `_call` is released to make it read.
        self._thread_reads = True
        self._call = threading.Lock()
        self._call.acquire()
        threading.Thread(target=self._run, name="cellblock-reader", daemon=True).start()

    def read_for(self, request: int, inbox: SimpleQueue[Line]) -> None:
        """Reads until the inbox of a request has a line, or leaves that to the thread. The caller then waits at the inbox."""
        self._has_callers = True
        # Asked before the turn is taken: a signal may come right after.
        is_nested: bool = self._turn._is_owned()  # type: ignore[attr-defined]
        try:
            if self._turn.acquire(blocking=False):
                if is_nested:
                    self._read_nested(inbox)
                else:
                    self._read_own(request, inbox)
        finally:
            # First of all, for Ctrl-C may come after any call.
            try:
                self._turn.release()
            except RuntimeError:
                pass  # another thread reads
            # Also for the thread that has waited for the end of a long turn.
            self._has_callers = True
        if inbox.empty() or len(self._requests) > (request in self._requests):
            self.call()

    def call(self) -> None:
        """Lets the thread read, if it stands back."""
        if not self._thread_reads:
            try:
                self._call.release()
            except RuntimeError:
                pass  # it was called already

    def abandon(self) -> None:
        """For the child of a fork, where the thread is not, and another thread may have had its turn."""
        self._has_ended = True
        self._turn = threading.RLock()

    def _read_own(self, request: int, inbox: SimpleQueue[Line]) -> None:
        """Reads answers to one request, until something else comes."""
        while inbox.empty() and not (self._has_ended or self._begun or self._lines):
            if not (self._unsplit or self._readiness.poll(_LOOK_MILLISECONDS)):
                continue
            self._fill()
            piece = self._unsplit[0]
            lines = _answers_to(request, piece)
            if not lines:
                return
            for line in lines:
                self._dispatch(line)
            # A signal handler may have asked something, and read on.
            if self._unsplit and self._unsplit[0] is piece:
                self._unsplit.popleft()

    def _read_nested(self, inbox: SimpleQueue[Line]) -> None:
        """Reads in a signal handler whose thread has the turn already: until it returns, no other thread can read."""
        readiness = _readiness(self._descriptor)
        while inbox.empty() and not self._has_ended:
            if self._lines or self._unsplit or readiness.poll(_LOOK_MILLISECONDS):
                self._read_all()
        if self._has_ended:
            self._at_end()

    def _read_all(self) -> None:
        """Reads and dispatches what comes."""
        if not self._lines:
            self._fill()
            self._split()
        while self._lines:
            text = self._lines[0]
            self._dispatch(line_from(text))
            if self._lines and self._lines[0] is text:
                self._lines.popleft()

    def _fill(self) -> None:
        # One call of compiled code: what was read is in the queue, whatever signal comes.
        if not self._unsplit:
            self._unsplit.extend(map(os.read, (self._descriptor,), (_CHUNK_BYTES,)))

    def _split(self) -> None:
        piece = self._unsplit.popleft()
        if not piece:
            self._has_ended = True
            return
        first, *more = piece.split(b"\n")
        self._begun.append(first)
        if more:
            whole, self._begun = b"".join(self._begun), [more.pop()]
            if not self._begun[0]:
                self._begun.clear()
            self._lines.extend((whole, *more))

    def _run(self) -> None:
        is_called = False
        try:
            while not self._has_ended:
                with self._turn:
                    # A caller that has read while the thread waited for its turn is likely to read again.
                    if is_called or not self._has_callers:
                        self._thread_reads = True
                        self._call.acquire(blocking=False)
                        while not (self._has_ended or self._may_stand_back()):
                            self._read_all()
                is_called = self._stand_back()
        except (OSError, ValueError):
            pass
        self._has_ended = True
        self._at_end()

    def _may_stand_back(self) -> bool:
        if not self._has_callers or self._lines or self._unsplit or self._requests:
            return False
        self._thread_reads = False
        if self._requests:
            # It came in between, and has not called the thread.
            self._thread_reads = True
        return not self._thread_reads

    def _stand_back(self) -> bool:
        """Waits until no caller has come for a while, or the thread is called. Whether it was called."""
        while self._has_callers and not self._has_ended:
            self._has_callers = False
            if self._call.acquire(timeout=_STAND_BACK_SECONDS):
                return True
        return False


def line_from(text: bytes) -> Line:
    """What a line of the child says. Raises `ValueError` where it is no line of a pipe."""
    line, _ = _decode(text.decode())
    if not (isinstance(line, dict) and "id" in line and "event" in line):
        raise ValueError("not an object with `id` and `event`")
    return line


def _answers_to(request: int, piece: bytes) -> list[Line]:
    """The lines of a piece, where all of them are whole and belong to one request; else nothing."""
    if not piece.endswith(b"\n"):
        return []
    try:
        lines = [line_from(text) for text in piece[:-1].split(b"\n")]
    except ValueError:
        return []
    return lines if all(line["id"] == request and line["event"] in _REPEATABLE for line in lines) else []


def _readiness(descriptor: int) -> select.poll:
    """What tells when a descriptor can be read without waiting. For one thread at a time."""
    readiness = select.poll()
    readiness.register(descriptor, select.POLLIN)
    return readiness
