"""A second thread that answers the host's questions while a cell runs: the strategy `thread`.

The cell keeps the main thread, since signals, event loops and many libraries want it. The second thread lives as long as the
cell, so that between cells, when checkpoints are made, there is only one.
"""

from __future__ import annotations

from _signal import SIG_BLOCK, pthread_sigmask, valid_signals  # type: ignore[import-not-found]
from _thread import allocate_lock, get_native_id, start_new_thread
from os import access, close, pipe, read, sched_yield, write
from select import select
from sys import _current_frames
from time import monotonic

from . import BUILTINS as __builtins__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .channel import Channel
    from .wire import Frame

_STOP, _NEWS = b"s", b"n"
_PATIENCE = 0.2


class Watcher:
    """`with Watcher(channel, answer):` around a cell."""

    def __init__(self, channel: Channel, answer: Callable[[Frame], bytes]) -> None:
        self._channel = channel
        self._answer = answer
        self._serving = allocate_lock()
        self._thread = 0
        self._native = 0

    def __enter__(self) -> None:
        self._hears, self._bell = pipe()
        self._channel.when_asked(self._ring)
        self._serving.acquire()
        self._thread = start_new_thread(self._serve, ())

    def __exit__(self, *error: Any) -> None:
        self._channel.when_asked(None)
        try:
            write(self._bell, _STOP)
        except OSError:  # the cell closed it; the thread has seen that
            pass
        self._serving.acquire(True, _PATIENCE)
        deadline = monotonic() + _PATIENCE
        while self._is_there() and monotonic() < deadline:
            sched_yield()
        for descriptor in (self._hears, self._bell):
            try:
                close(descriptor)
            except OSError:
                pass

    def _is_there(self) -> bool:
        """Until the kernel has forgotten the thread too, a checkpoint would take it for one of a library's."""
        return self._thread in _current_frames() or access(f"/proc/self/task/{self._native}", 0)

    def _ring(self) -> None:
        try:
            write(self._bell, _NEWS)
        except OSError:
            pass

    def _serve(self) -> None:
        # Signals belong to the main thread: it may sleep, and must be woken.
        pthread_sigmask(SIG_BLOCK, valid_signals())
        self._native = get_native_id()
        try:
            self._answer_all()
        except (OSError, ValueError):  # the cell closed what this waits on
            pass
        finally:
            self._serving.release()

    def _answer_all(self) -> None:
        while True:
            ready, _, _ = select([self._channel.fd, self._hears], [], [])
            if self._hears in ready and _STOP in read(self._hears, 4096):
                return
            self._channel.pump()
            while (request := self._channel.poll_request()) is not None:
                self._channel.transmit(self._answer(request), [])
