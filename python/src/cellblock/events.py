"""What happens while a cell runs, in the order in which it happens. The last event is `Finished`."""

from __future__ import annotations

from typing import Any, NamedTuple

from .records import MimeBundle
from .result import Result


class Stdout(NamedTuple):
    """The code wrote to standard output."""

    text: str


class Stderr(NamedTuple):
    """The code wrote to standard error."""

    text: str


class Display(NamedTuple):
    """The code showed something: its forms by MIME type."""

    mime: MimeBundle


class ToolCall(NamedTuple):
    """The code called a tool. The session answers it; the event only tells."""

    call: str
    name: str
    arguments: dict[str, Any]


class InputRequest(NamedTuple):
    """The code called `input()`. The session's `input` function answers; the event only tells."""

    call: str
    prompt: str


class Restored(NamedTuple):
    """The process of the session died, and the state is that after the cell `checkpoint` (0: the beginning)."""

    checkpoint: int


class Log(NamedTuple):
    """A thread of the session wrote something after its cell was over."""

    text: str


class Finished(NamedTuple):
    """The cell is over."""

    result: Result


Event = Stdout | Stderr | Display | ToolCall | InputRequest | Restored | Log | Finished


def event_from(line: dict[str, Any]) -> Event | None:
    """The event of a line of the pipe; `None` for kinds that this version does not know."""
    kind = line["event"]
    if kind == "result":
        return Finished(Result(line["result"]))
    made = _KINDS.get(kind)
    if made is None:
        return None
    return made(*(line[name] for name in made._fields))  # type: ignore[no-any-return]


_KINDS: dict[str, Any] = {
    "stdout": Stdout,
    "stderr": Stderr,
    "display": Display,
    "tool_call": ToolCall,
    "input_request": InputRequest,
    "restored": Restored,
    "log": Log,
}
