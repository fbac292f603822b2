"""Threads for tools, and an event loop for `async` tools of sync sessions. All are daemons: a tool that hangs blocks nothing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

Job = Callable[[], None]
# How late the end of a tool's time may be noticed.
_TICK_SECONDS = 0.05


class Workers:
    """Daemon threads that run jobs. A thread is started when none is free, and then stays for the next job."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._free = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, job: Job) -> None:
        """Runs a job soon, on some thread."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
            else:
                threading.Thread(target=self._work, name="cellblock-tool", daemon=True).start()
        self._jobs.put(job)

    def run_coroutine(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine on an event loop that lives on a thread of its own."""
        import asyncio

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="cellblock-loop", daemon=True).start()
        asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            job()
            del job  # what a call holds is let go before the next one comes
            with self._lock:
                self._free += 1


class Deadlines:
    """Calls something when its time is over, unless it is withdrawn before. One thread looks, while there is something."""

    def __init__(self) -> None:
        self._waiting: dict[object, tuple[float, Job]] = {}
        self._lock = threading.Lock()
        self._is_looking = False

    def add(self, key: object, seconds: float, job: Job) -> None:
        """Calls `job` after so many seconds."""
        with self._lock:
            self._waiting[key] = (time.monotonic() + seconds, job)
            if self._is_looking:
                return
            self._is_looking = True
        threading.Thread(target=self._look, name="cellblock-clock", daemon=True).start()

    def withdraw(self, key: object) -> None:
        """Forgets what was added under this key."""
        with self._lock:
            self._waiting.pop(key, None)

    def _look(self) -> None:
        idle_ticks = 0
        while True:
            time.sleep(_TICK_SECONDS)
            now = time.monotonic()
            with self._lock:
                over = [key for key, (deadline, _) in self._waiting.items() if deadline <= now]
                jobs = [self._waiting.pop(key)[1] for key in over]
                idle_ticks = 0 if self._waiting or jobs else idle_ticks + 1
                if idle_ticks > 200:
                    self._is_looking = False
                    return
            for job in jobs:
                job()


workers = Workers()
deadlines = Deadlines()


def _after_fork_in_child() -> None:
    # The threads of the parent are not here: none is free.
    workers.__init__()  # type: ignore[misc]
    deadlines.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
