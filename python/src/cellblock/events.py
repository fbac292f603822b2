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
    """The code showed something: its forms by MIME type.

    With `update` it takes the place of what was shown before under the same `display_id`.
    """

    mime: MimeBundle
    display_id: str | None = None
    update: bool = False
    metadata: dict[str, Any] | None = None


class ClearOutput(NamedTuple):
    """The code took back what it showed; with `wait`, as soon as it shows something new."""

    wait: bool = False


class Comm(NamedTuple):
    """A widget of the code has a message for its front end: `kind` is `open`, `msg` or `close`; `buffers` are base64."""

    kind: str
    comm: str
    data: dict[str, Any]
    target: str | None = None
    metadata: dict[str, Any] | None = None
    buffers: list[str] | None = None


class Begun(NamedTuple):
    """A cell begins. Only readers of all events of a session get it."""

    cell: int
    code: str


class ToolCall(NamedTuple):
    """The code called a tool. The session answers it; the event only tells."""

    call: str
    name: str
    arguments: dict[str, Any]


class InputRequest(NamedTuple):
    """The code called `input()`, or `getpass()`. The session's `input` function answers; the event only tells."""

    call: str
    prompt: str
    password: bool = False


class Restored(NamedTuple):
    """The process of the session died, and the state is that after the cell `checkpoint` (0: the beginning)."""

    checkpoint: int


class Log(NamedTuple):
    """A thread of the session wrote something after its cell was over."""

    text: str


class Finished(NamedTuple):
    """The cell is over."""

    result: Result


Event = Begun | Stdout | Stderr | Display | ClearOutput | Comm | ToolCall | InputRequest | Restored | Log | Finished


class Numbered(NamedTuple):
    """An event of a session with its number, and the number of its cell if it belongs to one."""

    seq: int
    cell: int | None
    event: Event


def event_from(line: dict[str, Any]) -> Event | None:
    """The event of a line of the pipe; `None` for kinds that this version does not know."""
    kind = line["event"]
    if kind == "result":
        return Finished(Result(line["result"]))
    made = _KINDS.get(kind)
    if made is None:
        return None
    fields = {name: line[name] for name in made._fields if name in line}
    return made(**fields)  # type: ignore[no-any-return]


_KINDS: dict[str, Any] = {
    "begun": Begun,
    "stdout": Stdout,
    "stderr": Stderr,
    "display": Display,
    "clear_output": ClearOutput,
    "comm": Comm,
    "tool_call": ToolCall,
    "input_request": InputRequest,
    "restored": Restored,
    "log": Log,
}
