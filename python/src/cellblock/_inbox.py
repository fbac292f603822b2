"""What comes after the answer of a request, until it is read: the output of a process, the changes of a watched directory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .errors import error_from

if TYPE_CHECKING:
    from ._connection import Line

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """Items of one request that were not read yet. Lines come in on the reading thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._unread: deque[Item] = deque()
        self._wakers: list[Callable[[], None]] = []
        self.answer: Line | None = None
        self.error: Exception | None = None

    def receive(self, line: Line) -> None:
        """Takes a line of the request."""
        with self._changed:
            if line["event"] == "answer":
                self.answer = line["answer"]
            elif line["event"] == "error":
                self.error = error_from(line["code"], line["message"])
            else:
                self._take(line)
            self._changed.notify_all()
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    def _take(self, line: Line) -> None:
        """Takes an event."""
        raise NotImplementedError

    def take(self) -> Item | None:
        """The oldest item that was not read."""
        with self._changed:
            return self._unread.popleft() if self._unread else None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.error is not None

    @property
    def is_known(self) -> bool:
        """Whether it is known what became of the request."""
        return self.answer is not None or self.is_over

    @property
    def has_news(self) -> bool:
        """Whether there is something to read, or nothing will come."""
        return bool(self._unread) or self.is_over

    def wait_for(self, is_true: Callable[[], bool], timeout: float | None = None) -> bool:
        """Waits on this thread."""
        with self._changed:
            return self._changed.wait_for(is_true, timeout)

    async def wait_for_async(self, is_true: Callable[[], bool]) -> None:
        """Waits on the running event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        while True:
            with self._changed:
                if is_true():
                    return
                woken: asyncio.Future[None] = loop.create_future()
                self._wakers.append(_waker(loop, woken))
            await woken


def _waker(loop: Any, woken: Any) -> Callable[[], None]:
    def settle() -> None:
        if not woken.done():
            woken.set_result(None)

    def wake() -> None:
        try:
            loop.call_soon_threadsafe(settle)
        except RuntimeError:
            pass  # the loop is closed: no task waits

    return wake
