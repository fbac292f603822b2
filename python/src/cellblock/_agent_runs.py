"""Runs of agents on the pipe: one request whose events come in, while tools and approvals are answered by this process."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from ._calls import ToolRun, decide_call, is_waiting_for_this, note_waiting
from ._connection import Connection, Line
from ._core import Core
from ._plans import _send
from ._workers import workers
from .errors import Busy, error_from
from .outcomes import AgentEvent, Outcome

if TYPE_CHECKING:
    from .approval import Policy

MODES = ("never", "effects", "code", "tools", "all")


class Conversation:
    """An agent on the pipe, by its name: the tools and the approvals that it may ask this process for."""

    def __init__(self, core: Core, key_variable: str | None) -> None:
        self.core = core
        self._key_variable = key_variable

    def connect(self) -> Connection:
        """Starts the child process of the host, if it does not run. Raises `Ended` after `close`."""
        if not self.core.was_opened:
            connection = self.core.host._connect_for_agent(self._key_variable)
            self.core.attach(connection, connection.new_session_name())
        return self.core.connection

    def check_free(self) -> None:
        """Raises `Busy` in a tool or an approval that the run of this conversation waits for."""
        if is_waiting_for_this(self.core.name):
            raise Busy("this chat waits for the answer of the tool that asks it: a question would wait for itself", "busy")

    def ask(self, fields: Line, deliver: Callable[[Line], None], loop: asyncio.AbstractEventLoop | None) -> AgentCall:
        """Sends a request whose last event is `outcome`. Events come to `deliver`, on another thread."""
        call = AgentCall(self.core, deliver, loop)
        connection = self.connect()
        _send(connection, {"session": self.core.name, **fields}, call.receive, "outcome")
        return call

    def forked(self, name: str) -> Conversation:
        """The conversation of a fork, which is there under this name."""
        return Conversation(self.core.forked(name), self._key_variable)

    def close(self) -> None:
        """Ends what runs, and the session. Does not wait; for finalizers, too."""
        if self.core.is_open:
            self.core.connection.send_later({"op": "close", "session": self.core.name})
        self.core.mark_closed("the conversation was closed")


class AgentCall:
    """One question on its way."""

    def __init__(self, core: Core, deliver: Callable[[Line], None], loop: asyncio.AbstractEventLoop | None) -> None:
        self._core = core
        self._deliver = deliver
        self._loop = loop
        self._context = contextvars.copy_context()

    def receive(self, line: Line) -> None:
        """A line of the run, on the reading thread."""
        event = line["event"]
        if event == "tool_call":
            ToolRun(self._core, line, self._loop, self._context.copy()).start()
        elif event == "approval_request":
            context = self._context.copy()
            workers.run(lambda: context.run(self._decide, line))
        else:
            self._deliver(line)

    def _decide(self, line: Line) -> None:
        note_waiting(self._core.name)
        decision = decide_call(self._core.approve, line["tool"], line["arguments"], changes=True)
        fields: Line = {"op": "approve", "session": self._core.name, "call": line["call"], "decision": decision.kind}
        if decision.kind == "edit":
            fields["arguments"] = {**line["arguments"], **decision.arguments}
        elif decision.text:
            fields["text"] = decision.text
        self._core.connection.send(fields)


def policy_of(approve: Policy | str) -> Policy:
    """The rules for the caller's own tools: a mode of `cellblock ask` that never asks allows them all."""
    if approve == "never":
        return "allow"
    return None if isinstance(approve, str) and approve in MODES else approve  # type: ignore[return-value]


def asks_client(approve: Policy | str) -> bool:
    """Whether a function of this process decides about calls."""
    return callable(approve) or isinstance(approve, Mapping)


def outcome_of(line: Line) -> dict[str, Any] | None:
    """The outcome of a last line; `None` when more lines come. Raises what an `error` says."""
    if line["event"] == "error":
        raise error_from(line["code"], line["message"])
    return line["outcome"] if line["event"] == "outcome" else None


def events(conversation: Conversation, fields: Line) -> Iterator[AgentEvent]:
    inbox: SimpleQueue[Line] = SimpleQueue()
    conversation.ask(fields, inbox.put, None)
    is_over = False
    while not is_over:
        line = inbox.get()
        is_over = outcome_of(line) is not None
        yield _event_from(line)


async def events_async(conversation: Conversation, fields: Line) -> AsyncIterator[AgentEvent]:
    loop = asyncio.get_running_loop()
    inbox: asyncio.Queue[Line] = asyncio.Queue()

    def deliver(line: Line) -> None:
        try:
            loop.call_soon_threadsafe(inbox.put_nowait, line)
        except RuntimeError:
            pass  # the loop is closed: no task waits

    await asyncio.to_thread(conversation.connect)
    conversation.ask(fields, deliver, loop)
    is_over = False
    while not is_over:
        line = await inbox.get()
        is_over = outcome_of(line) is not None
        yield _event_from(line)


def last(given: Iterator[AgentEvent], kind: Any) -> Outcome[Any]:
    end: dict[str, Any] = {}
    for event in given:
        end = event.data
    return Outcome(end["outcome"], kind)


async def last_async(given: AsyncIterator[AgentEvent], kind: Any) -> Outcome[Any]:
    end: dict[str, Any] = {}
    async for event in given:
        end = event.data
    return Outcome(end["outcome"], kind)


def _event_from(line: Line) -> AgentEvent:
    data = {name: value for name, value in line.items() if name not in ("id", "session", "event")}
    return AgentEvent(str(line["event"]), data)
