"""Runs of agents on the pipe: one request whose events come in, while tools and approvals are answered by this process."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ._calls import ToolRun, decide_call
from ._connection import Connection, Line
from ._core import Core
from ._plans import send
from ._workers import workers
from .errors import error_from

if TYPE_CHECKING:
    import asyncio

    from .approval import Policy
    from .host import Host, Remote
    from .tools import Tool

MODES = ("never", "effects", "code", "tools", "all")


class Conversation:
    """An agent on the pipe, by its name: the tools and the approvals that it may ask this process for."""

    def __init__(
        self, host: Host | Remote, tools: dict[str, Tool[..., Any]], approve: Policy | str, key_variable: str | None
    ) -> None:
        self.core = Core(host, tools, policy_of(approve), None, None)
        self._host = host
        self._key_variable = key_variable
        self._connection: Connection | None = None
        self._name = ""

    def connect(self) -> Connection:
        """Starts the child process of the host, if it does not run."""
        if self._connection is None:
            self._connection = self._host._connect_for_agent(self._key_variable)
            self._name = self._connection.new_session_name()
            self.core.attach(self._connection, self._name)
        return self._connection

    def ask(self, fields: Line, deliver: Callable[[Line], None], loop: asyncio.AbstractEventLoop | None) -> AgentCall:
        """Sends a request whose last event is `outcome`. Events come to `deliver`, on another thread."""
        call = AgentCall(self.core, deliver, loop)
        connection = self.connect()
        send(connection, {"session": self._name, **fields}, call.receive, "outcome")
        return call

    def close(self) -> None:
        """Ends what runs, and the session. Does not wait; for finalizers, too."""
        if self._connection is not None and self.core.is_open:
            self._connection.send_later({"op": "close", "session": self._name})
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
