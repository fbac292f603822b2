"""Operations written once, for both flavours.

A plan is a generator: it yields the fields of a request, gets the answer, and returns what the caller wants. `drive` carries it
out on the calling thread, `drive_async` on an event loop. What differs between the flavours is only how they wait.
"""

from __future__ import annotations

from collections.abc import Generator
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ._connection import Connection, Line
from .errors import Refused, error_from

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
Plan = Generator[Line, Any, T]


def drive(connection: Connection, session: str, plan: Plan[T]) -> T:
    """Carries a plan out, waiting on this thread."""
    inbox: SimpleQueue[Line] = SimpleQueue()

    def receive(line: Line) -> None:
        if line["event"] in _LAST:
            inbox.put(line)

    step = _Step(plan)
    while (fields := step.next_request()) is not None:
        number = _ask(connection, {"session": session, **fields}, receive)
        step.answer(connection.wait(number, inbox))
    return step.result()


async def drive_async(connection: Connection, session: str, plan: Plan[T]) -> T:
    """Carries a plan out, waiting on the running event loop."""
    import asyncio

    loop = asyncio.get_running_loop()
    step = _Step(plan)
    while (fields := step.next_request()) is not None:
        future: asyncio.Future[Line] = loop.create_future()
        _send(connection, {"session": session, **fields}, _future_receiver(loop, future))
        step.answer(await future)
    return step.result()


class _Step(Generic[T]):
    """Where a plan stands."""

    def __init__(self, plan: Plan[T]) -> None:
        self._plan = plan
        self._answer: Any = None
        self._error: Exception | None = None

    def next_request(self) -> Line | None:
        """Goes on with the plan: its next request, or `None` when it is done."""
        try:
            if self._error is not None:
                return self._plan.throw(self._error)
            return self._plan.send(self._answer)
        except StopIteration as end:
            self._result: T = end.value
            return None

    def answer(self, line: Line) -> None:
        """What came of the last request."""
        self._error = error_from(line["code"], line["message"]) if line["event"] == "error" else None
        self._answer = line.get("answer", line.get("result"))

    def result(self) -> T:
        return self._result


_LAST = ("answer", "result", "error")


def _send(connection: Connection, fields: Line, receive: Any, last_event: str | None = None) -> None:
    try:
        connection.request(fields, receive, last_event)
    except (ValueError, TypeError) as error:
        raise Refused(f"{fields['op']}: {error}", "invalid") from None


def _ask(connection: Connection, fields: Line, receive: Any) -> int:
    """Like `_send`, for a caller that waits for the answer on its thread."""
    try:
        return connection.ask(fields, receive)
    except (ValueError, TypeError) as error:
        raise Refused(f"{fields['op']}: {error}", "invalid") from None


def _future_receiver(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Line]) -> Any:
    def settle(line: Line) -> None:
        if not future.done():
            future.set_result(line)

    def receive(line: Line) -> None:
        if line["event"] in _LAST:
            try:
                loop.call_soon_threadsafe(settle, line)
            except RuntimeError:
                pass  # the loop is closed: no task waits

    return receive
