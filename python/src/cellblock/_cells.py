"""A cell that runs: its events, the calls that are answered meanwhile, and its end."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any

from ._connection import Line
from ._core import Core
from ._plans import _ask, _send
from .errors import error_from
from .result import Result

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping
    from queue import SimpleQueue

_QUIET = frozenset(("stdout", "stderr", "display", "clear_output", "comm", "restored"))


class RunningCell:
    """One `run` request. Its lines come in on the thread that reads, which starts calls of tools; the rest goes to `deliver`."""

    def __init__(
        self,
        core: Core,
        deliver: Callable[[Line], None],
        *,
        loop: asyncio.AbstractEventLoop | None,
        wants_events: bool,
    ) -> None:
        self._core = core
        self._deliver = deliver
        self._loop = loop
        self._wants_events = wants_events
        self._context = contextvars.copy_context()
        self.is_over = False

    def start(self, code: str, options: Line) -> None:
        """Sends the cell. It runs as soon as what was asked before is done."""
        _send(self._core.connection, self._fields(code, options), self._receive)
        self._core.cells_sent += 1

    def ask(self, code: str, options: Line) -> None:
        """Like `start`, for a caller that calls `next_line` at once."""
        self._connection = self._core.connection
        self._number = _ask(self._connection, self._fields(code, options), self._receive)
        self._core.cells_sent += 1

    def next_line(self, inbox: SimpleQueue[Line]) -> Line:
        """The next line that was delivered into an inbox. Waits on this thread."""
        return self._connection.wait(self._number, inbox)

    def _fields(self, code: str, options: Line) -> Line:
        return {"session": self._core.name, "op": "run", "code": code, **options}

    def interrupt(self) -> None:
        """Stops the cell, as Ctrl-C would. Does not wait."""
        if self.is_waiting():
            # In its turn: the interrupt overtakes no request, and no later request overtakes the interrupt.
            self._core.connection.send({"op": "interrupt", "session": self._core.name})

    def is_waiting(self) -> bool:
        """Whether the cell was sent and its end has not come."""
        return not self.is_over and self._core.is_open and self._core.connection.awaits(self._receive)

    def abandon(self) -> None:
        """Stops the cell, whose events have no reader any more. For finalizers: takes no lock."""
        if not self.is_over and self._core.is_open:
            self._core.connection.send_later({"op": "interrupt", "session": self._core.name})

    def _receive(self, line: Line) -> None:
        event = line["event"]
        if event == "tool_call":
            from ._calls import ToolRun

            ToolRun(self._core, line, self._loop, self._context.copy()).start()
            if not self._wants_events:
                return
        elif event in _QUIET:
            if not self._wants_events:
                return
        elif event == "result":
            self._end()
            self._core.note_result(line["result"])
        elif event == "error":
            self._end()
        self._deliver(line)

    def _end(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._core.cells_done += 1


def run_options(timeout: float | str | None, atomic: bool | None, env: Mapping[str, str] | None, silent: bool) -> Line:
    """What is special about one cell, as fields of `run`."""
    if timeout is None and atomic is None and not env and not silent:
        return {}
    given = {"timeout": timeout, "atomic": atomic, "env": dict(env) if env else None, "silent": silent or None}
    return {name: value for name, value in given.items() if value is not None}


def result_of(line: Line) -> Result:
    """The result of a last line. Raises what an `error` says."""
    if line["event"] == "error":
        raise error_from(line["code"], line["message"])
    return Result(line["result"])


def is_last(line: Line) -> bool:
    """Whether no more lines come for this cell."""
    return line["event"] in ("result", "error")


def needs_input(line: Line) -> Any:
    """Whether the code waits for a line of text."""
    return line["event"] == "input_request"
