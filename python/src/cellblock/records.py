"""The small values that results, lists and looks are made of."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

CheckpointStatus = Literal["armed", "behind", "unavailable"]
MimeBundle = dict[str, Any]


class Variable(NamedTuple):
    """A variable of a session: its name, the class of its value, the value in a few words, and bytes where they are known."""

    name: str
    type: str
    summary: str
    bytes: int | None = None


class VariableChanges(NamedTuple):
    """Which variables are new, changed and gone."""

    added: list[Variable]
    changed: list[Variable]
    removed: list[Variable]


class File(NamedTuple):
    """A file of the workspace: its path in it, its size, its type, and when it was changed (seconds since 1970) if known."""

    path: str
    bytes: int
    mime: str
    modified: float | None = None


class FileChanges(NamedTuple):
    """Which files are new, changed and gone."""

    created: list[File]
    changed: list[File]
    deleted: list[File]


class Frame(NamedTuple):
    """One step of a traceback: `<cell 3>` or a file, the line, the function, the source line, and short texts of the locals."""

    file: str
    line: int
    function: str
    source: str
    locals: dict[str, str]


class CellError(NamedTuple):
    """The exception that ended a cell: class, message, traceback with your own frames, and a hint where one is known.

    `obstacle` is the limit or wall that the code ran into: `memory`, `disk`, `processes`, `open_files`, `network` where the
    rules do not name the host, `no_network`, `file`, `package`, or `installable_package` where the session has a tool that
    installs it. `package` is the package that has a missing module.
    """

    type: str
    value: str
    repr: str
    traceback: str
    frames: list[Frame]
    hint: str | None
    obstacle: str | None = None
    package: str | None = None


class CheckpointState(NamedTuple):
    """The checkpoint a cell started with: `armed`, `behind` by so many cells, or `unavailable`; and why it is not armed."""

    status: CheckpointStatus
    behind: int
    reason: str | None


class Usage(NamedTuple):
    """What a cell cost: milliseconds on the clock and of the processor, peak memory, bytes written."""

    wall_ms: float
    cpu_ms: float
    peak_bytes: int
    stdout_bytes: int
    stderr_bytes: int


class ToolCallRecord(NamedTuple):
    """A call of a tool that a cell made: `outcome` is `ok`, `error` or `unanswered`."""

    call: str
    name: str
    arguments: dict[str, Any]
    ms: float
    outcome: str


class Undone(NamedTuple):
    """Where `undo` led: the cell after which the state stands now, what changed on the way back, and what could not be put back:
    a file that a process has open for writing stays as it is."""

    cell: int
    variables: VariableChanges
    files: FileChanges
    not_restored: tuple[str, ...] = ()


class Checkpoint(NamedTuple):
    """A state that `undo` can go back to: after which cell, its name if it has one, when it was made, its size in bytes."""

    cell: int
    name: str | None
    at: float | None = None
    bytes: int | None = None


class Completion(NamedTuple):
    """A text that can stand at a cursor in place of what is between `start` and `end`, and what it is, such as `module`."""

    text: str
    start: int
    end: int
    type: str


class Completeness(NamedTuple):
    """Whether a text can be run: `complete`, `incomplete`, `invalid` or `unknown`; and the indent of the next line."""

    status: str
    indent: str


class PathStat(NamedTuple):
    """What is at an absolute path of a session: `kind` is `file`, `directory`, `link` or `other`."""

    name: str
    path: str
    kind: str
    bytes: int
    mode: int
    modified: float
    target: str | None = None


class Inspection(NamedTuple):
    """A closer look at one variable: its class, repr, documentation and other forms."""

    type: str
    repr: str
    doc: str
    mime: MimeBundle


def variable_changes(raw: dict[str, list[dict[str, Any]]]) -> VariableChanges:
    """`VariableChanges` from JSON."""
    return VariableChanges(*([Variable(**item) for item in raw[name]] for name in VariableChanges._fields))


def file_changes(raw: dict[str, list[dict[str, Any]]]) -> FileChanges:
    """`FileChanges` from JSON."""
    return FileChanges(*([File(**item) for item in raw[name]] for name in FileChanges._fields))
