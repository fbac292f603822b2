"""Commands and files of a session for the adapters: processes by a cell that starts them, files of any directory.

Each function is a generator of steps, as in `_plans`: it yields a cell, gets its result, and returns what the caller wants.
`carry_out` does that for a `Session`, `carry_out_async` for an `AsyncSession`. What comes back is the word of code that may be
hostile: everything is checked and bounded.
"""

from __future__ import annotations

import functools
import os
import zlib
from base64 import b64decode, b64encode
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from ._commands_guest import ANSWER, PART_BYTES
from ._seeds import literal
from .errors import CellblockError, CellFailed
from .result import Result

if TYPE_CHECKING:
    from .async_session import AsyncSession
    from .session import Session

T = TypeVar("T")

#: How much of each stream of a command is kept, unless the caller says otherwise.
MAX_OUTPUT_BYTES = 10 << 20
# A command without a time limit has a day. The clock of the cell is only a net below that of the command.
_DAY_SECONDS = 86_400.0
_NET_SECONDS = 30.0


class TooLong(CellblockError):
    """A file has more bytes than the caller wants to read."""


class Step(NamedTuple):
    """A cell to be run."""

    code: str
    timeout: float


Steps = Generator[Step, Result, T]


class Completed(NamedTuple):
    """A command that ended. `exit_code` is 128 + n after signal n, 127 for a missing program, 126 for one that cannot be run."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    #: Whether output beyond the limit was dropped.
    is_cut: bool
    #: Whether the time limit ended it, with its whole process group.
    is_late: bool
    #: The error number of a program that could not be started; 0 for one that was.
    start_error: int = 0


class Entry(NamedTuple):
    """What is at a path."""

    name: str
    kind: Literal["file", "directory", "link", "other"]
    bytes: int
    modified: float
    mode: int


def carry_out(session: Session, steps: Steps[T]) -> T:
    """Runs the cells in a session, one after the other, on this thread."""
    try:
        step = next(steps)
        while True:
            step = steps.send(session.run(step.code, timeout=step.timeout, atomic=False))
    except StopIteration as end:
        result: T = end.value
        return result


async def carry_out_async(session: AsyncSession, steps: Steps[T]) -> T:
    """Runs the cells in a session, on the running event loop. Cancelling interrupts the cell, which ends its process."""
    try:
        step = next(steps)
        while True:
            step = steps.send(await session.run(step.code, timeout=step.timeout, atomic=False))
    except StopIteration as end:
        result: T = end.value
        return result


def run_command(
    command: str | Sequence[str],
    *,
    input: bytes | None = None,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    max_output: int = MAX_OUTPUT_BYTES,
) -> Steps[Completed]:
    """Runs a program (a list) or a line for the shell (a text) until it ends; processes that it left behind are not awaited.

    `env` is added to the environment of the session. Raises `OSError` when `cwd` is no directory.
    """
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    if not argv or any("\0" in word for word in argv):
        raise ValueError("a command needs a program, and no word of it can hold a NUL character")
    key = os.urandom(8).hex()
    input_path = None
    if input is not None and len(input) > PART_BYTES:
        input_path = f"/tmp/.cellblock-input-{key}"
        yield from write_bytes(input_path, input)
        input = None
    raw = yield from _request(
        None if timeout is None else timeout + _NET_SECONDS,
        do="run",
        argv=argv,
        input=None if input is None else _packed(input),
        input_path=input_path,
        cwd=cwd,
        env=dict(env or {}),
        timeout=timeout,
        max_output=max_output,
        key=key,
    )
    stdout, stderr = _bytes(raw, "stdout"), _bytes(raw, "stderr")
    more = raw.get("more")
    if isinstance(more, dict) and any(more.values()):
        stdout += yield from _rest(key, "stdout", max_output - len(stdout))
        stderr += yield from _rest(key, "stderr", max_output - len(stderr))
        yield from _request(do="forget", key=key)
    return Completed(
        _integer(raw, "exit_code"),
        stdout,
        stderr,
        bool(raw.get("is_cut")),
        bool(raw.get("is_late")),
        _integer(raw, "start_error", 0),
    )


def _rest(key: str, stream: str, room: int) -> Steps[bytes]:
    parts = bytearray()
    while len(parts) < room:
        part = _bytes((yield from _request(do="output", key=key, stream=stream, offset=len(parts))), "data")
        parts += part
        if len(part) < PART_BYTES:
            break
    return bytes(parts[: max(room, 0)])


def read_bytes(path: str, *, max_bytes: int | None = None) -> Steps[bytes]:
    """The contents of a file. Raises `OSError` as `open` does, and `TooLong` when it is longer than `max_bytes`."""
    contents = bytearray()
    while True:
        raw = yield from _request(do="read", path=path, offset=len(contents), length=PART_BYTES)
        part = _bytes(raw, "data")
        contents += part
        if max_bytes is not None and max(len(contents), _integer(raw, "bytes")) > max_bytes:
            raise TooLong(f"{path} has more than {max_bytes} bytes")
        if len(part) < PART_BYTES:
            return bytes(contents)


def write_bytes(path: str, contents: bytes, *, parents: bool = False) -> Steps[None]:
    """Writes a file, with the directories above it if `parents`. Raises `OSError` as `open` does."""
    for start in range(0, max(len(contents), 1), PART_BYTES):
        part = _packed(contents[start : start + PART_BYTES])
        yield from _request(do="write", path=path, offset=start, data=part, parents=parents and start == 0)


def look(path: str, *, follow: bool = True) -> Steps[Entry]:
    """What is at a path; a link is followed unless `follow` is false."""
    return _entry((yield from _request(do="look", path=path, follow=follow)))


def list_directory(path: str) -> Steps[list[Entry]]:
    """What a directory holds, by name."""
    entries = (yield from _request(do="list", path=path)).get("entries")
    if not isinstance(entries, list):
        raise _nonsense()
    return sorted(_entry(one) for one in entries)


def make_directory(path: str, *, parents: bool = True) -> Steps[None]:
    """Makes a directory. With `parents`, those above it too, and one that is there is no error."""
    yield from _request(do="make", path=path, parents=parents)


def remove(path: str, *, recursive: bool = False) -> Steps[None]:
    """Removes a file or an empty directory; with `recursive`, a directory with everything in it."""
    yield from _request(do="remove", path=path, recursive=recursive)


def real_path(path: str) -> Steps[str]:
    """The absolute path without links."""
    return str((yield from _request(do="place", path=path)).get("path"))


def working_directory() -> Steps[str]:
    """The directory that the interpreter of the session stands in."""
    return str((yield from _request(do="place", path=None)).get("path"))


@functools.cache
def _guest_source() -> str:
    return Path(__file__).with_name("_commands_guest.py").read_text(encoding="utf-8")


def _request(_timeout: float | None = _NET_SECONDS, /, **fields: Any) -> Steps[dict[str, Any]]:
    # One expression that binds no variable and uses no name that code of the session could have bound.
    code = (
        "(lambda space: (__import__('builtins').exec("
        f"{_guest_source()!r}, space), space['answer']({literal(fields)}))[1])({{'__name__': '_cellblock_commands'}})"
    )
    result = yield Step(code, _DAY_SECONDS if _timeout is None else _timeout)
    return _answer(result)


def _answer(result: Result) -> dict[str, Any]:
    import json

    if not result.ok:
        raise CellFailed(result)
    shown = [bundle[ANSWER] for bundle in result.displays if ANSWER in bundle]
    try:
        answer = json.loads(shown[-1])
    except (IndexError, TypeError, ValueError, RecursionError):
        raise _nonsense() from None
    if not isinstance(answer, dict):
        raise _nonsense()
    if "errno" in answer:
        number = _integer(answer, "errno")
        raise OSError(number, os.strerror(number), str(answer.get("path")))
    return answer


def _entry(raw: Any) -> Entry:
    if not isinstance(raw, dict) or raw.get("kind") not in ("file", "directory", "link", "other"):
        raise _nonsense()
    modified = raw.get("modified")
    if not isinstance(modified, (int, float)):
        raise _nonsense()
    return Entry(str(raw.get("name")), raw["kind"], _integer(raw, "bytes"), float(modified), _integer(raw, "mode"))


def _integer(raw: dict[str, Any], name: str, default: int | None = None) -> int:
    value = raw.get(name, default)
    if not isinstance(value, int) or not -(2**31) <= value < 2**63:
        raise _nonsense()
    return value


def _packed(data: bytes) -> str:
    # Compressed: most files and outputs are text, and what crosses is a line of JSON.
    return b64encode(zlib.compress(data, 1)).decode("ascii")


def _bytes(raw: dict[str, Any], name: str) -> bytes:
    unpack = zlib.decompressobj()
    try:
        data = unpack.decompress(b64decode(raw[name], validate=True), PART_BYTES + 1)
    except (KeyError, TypeError, ValueError, zlib.error):
        raise _nonsense() from None
    if len(data) > PART_BYTES or not unpack.eof:
        raise _nonsense()
    return data


def _nonsense() -> CellblockError:
    return CellblockError("the session gave an answer that makes no sense: code in it may have changed Python itself", "guest")
