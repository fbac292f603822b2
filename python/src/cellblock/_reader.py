"""Reading the lines of a child process: on the thread that waits for the next line, or on a thread of its own.

A caller that reads its own answer is not woken by another thread, which would take longer than the answer itself.
"""

from __future__ import annotations

import json
import os
import select
import threading
from collections import deque
from collections.abc import Callable, Sized
from queue import SimpleQueue
from typing import Any, Protocol

Line = dict[str, Any]

_CHUNK_BYTES = 64 << 10
# How long no caller has read when the thread goes on to read.
_STAND_BACK_SECONDS = 0.005
# How soon a caller sees that a signal handler on its thread has read its line.
_LOOK_MILLISECONDS = 50
# What callers take themselves: events whose second arrival does no harm, for Ctrl-C may come between their dispatch and the note
# that they were dispatched.
_REPEATABLE = frozenset(("answer", "result", "error", "stdout", "stderr", "display", "clear_output", "comm", "restored"))


class Requests(Sized, Protocol):
    """The numbers of the requests that wait for lines."""

    def __contains__(self, number: object, /) -> bool: ...


class LineReader:
    """Gives each line that comes from a descriptor to `dispatch`, on one thread at a time.

    `requests` are those under way, and `at_end` is called when no more lines come. The thread reads whatever comes. It stands
    back after an answer that a caller waited for, because the next request of this caller is likely to come soon; the caller
    then reads on its own thread, and leaves to the thread what is not an answer to its request.
    """

    def __init__(self, descriptor: int, dispatch: Callable[[Line], None], requests: Requests, at_end: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._readiness = _readiness(descriptor)
        self._dispatch = dispatch
        self._requests = requests
        self._at_end = at_end
        # Held while something is read and dispatched. A caller may have it twice: a signal handler may ask, too.
        self._turn = threading.RLock()
        # At most one piece that was read and not dispatched, and the beginning of a line whose end has not come.
        self._unread: deque[bytes] = deque()
        self._begun: list[bytes] = []
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
        # In a signal handler, on a thread that reads already. Asked before: the signal may come right after the turn was taken.
        is_nested: bool = self._turn._is_owned()  # type: ignore[attr-defined]
        try:
            if self._turn.acquire(blocking=False):
                self._lead(request, inbox, is_nested=is_nested)
        finally:
            # First of all, for Ctrl-C may come after any call, and by the owner alone.
            try:
                self._turn.release()
            except RuntimeError:
                pass  # another thread reads
        if inbox.empty() or self._is_awaited_beside(request):
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

    def _lead(self, request: int, inbox: SimpleQueue[Line], *, is_nested: bool) -> None:
        try:
            if is_nested:
                # No other thread can read until the signal handler returns.
                readiness = _readiness(self._descriptor)
                while inbox.empty() and not self._has_ended:
                    if self._unread or readiness.poll(_LOOK_MILLISECONDS):
                        self._read_all()
            else:
                while inbox.empty():
                    if (self._unread or self._readiness.poll(_LOOK_MILLISECONDS)) and not self._read_own(request):
                        break
        finally:
            # Also for the thread that has waited for the end of a long turn.
            self._has_callers = True

    def _read_own(self, request: int) -> bool:
        """Reads and dispatches lines of one request. False where something else comes."""
        if self._has_ended or self._begun:
            return False
        self._fill()
        piece = self._unread[0]
        if not piece.endswith(b"\n"):
            return False
        lines: list[Line] = []
        for text in piece[:-1].split(b"\n"):
            line: Line = json.loads(text)
            if line["id"] != request or line["event"] not in _REPEATABLE:
                return False
            lines.append(line)
        for line in lines:
            self._dispatch(line)
        if self._unread and self._unread[0] is piece:
            self._unread.popleft()
        return True

    def _read_all(self) -> None:
        """Reads and dispatches what comes."""
        self._fill()
        piece = self._unread.popleft()
        if not piece:
            self._has_ended = True
            return
        first, *more = piece.split(b"\n")
        self._begun.append(first)
        if not more:
            return
        texts = [b"".join(self._begun), *more]
        rest = texts.pop()
        self._begun = [rest] if rest else []
        for text in texts:
            self._dispatch(json.loads(text))

    def _fill(self) -> None:
        # One call of compiled code: what was read is in the queue, whatever signal comes.
        if not self._unread:
            self._unread.extend(map(os.read, (self._descriptor,), (_CHUNK_BYTES,)))

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
        if not self._has_callers or self._unread or self._requests:
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

    def _is_awaited_beside(self, request: int) -> bool:
        return len(self._requests) > (request in self._requests)


def _readiness(descriptor: int) -> select.poll:
    """What tells when a descriptor can be read without waiting. For one thread at a time."""
    readiness = select.poll()
    readiness.register(descriptor, select.POLLIN)
    return readiness
