"""Processes beside the interpreter of a session: `session.spawn(["sort"], stdin=True)`."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from ._connection import Line
from ._inbox import Inbox
from ._plans import drive, drive_async, send
from .errors import error_from

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from ._core import Core
    from ._plans import Plan

T = TypeVar("T")

# Output that is not read yet: what is more is dropped, oldest first, and counted.
MAX_UNREAD_BYTES = 64 << 20
# What is written at once. As base64 it fits into a line.
_WRITE_BYTES = 4 << 20
_SIGTERM = 15


class Output(NamedTuple):
    """Something that a process wrote, to which stream, and how many bytes it had written before."""

    stream: Literal["stdout", "stderr", "pty"]
    data: bytes
    offset: int


class ProcessEnd(NamedTuple):
    """How a process ended: by itself with an exit code, or by a signal; why; and what it used."""

    exit_code: int | None
    signal: int | None
    status: Literal["exited", "signaled", "timeout", "killed", "taken_back", "session_ended"]
    cpu_ms: float
    peak_bytes: int

    @property
    def returncode(self) -> int:
        """The exit code, or minus the signal, as `subprocess` has it."""
        return self.exit_code if self.exit_code is not None else -(self.signal or 0)


class ProcessInfo(NamedTuple):
    """A process that runs: its name, its id in the session, what it is, where, and since when (seconds since 1970)."""

    proc: str
    pid: int
    argv: list[str]
    cwd: str
    since: float
    tag: str | None = None


class _Inbox(Inbox[Output]):
    """What came from one process and was not read yet."""

    def __init__(self) -> None:
        super().__init__()
        self._bytes = 0
        self.end: ProcessEnd | None = None
        self.dropped = 0

    def _take(self, line: Line) -> None:
        event = line["event"]
        if event == "proc_output":
            data = b64decode(line["base64"])
            self._unread.append(Output(line["stream"], data, line["offset"]))
            self._bytes += len(data)
            while self._bytes > MAX_UNREAD_BYTES:
                lost = len(self._unread.popleft().data)
                self._bytes -= lost
                self.dropped += lost
        elif event == "proc_dropped":
            self.dropped += line["bytes"]
        elif event == "proc_end":
            self.end = ProcessEnd(*(line[name] for name in ProcessEnd._fields))

    def take(self) -> Output | None:
        """The oldest output that was not read."""
        with self._changed:
            output = super().take()
            self._bytes -= 0 if output is None else len(output.data)
            return output

    @property
    def is_over(self) -> bool:
        """Whether the process ended, or will tell no more."""
        return self.end is not None or self.error is not None


class _ProcessBase:
    """What both kinds of process know."""

    def __init__(self, core: Core, inbox: _Inbox, argv: list[str]) -> None:
        self._core = core
        self._inbox = inbox
        self.argv = argv
        """The program and its arguments."""
        self.proc = ""
        """Its name in the session."""
        self.pid = 0
        """Its process id in the session."""

    @property
    def end(self) -> ProcessEnd | None:
        """How it ended; `None` while it runs."""
        return self._inbox.end

    @property
    def returncode(self) -> int | None:
        """The exit code, or minus the signal; `None` while it runs."""
        return None if self._inbox.end is None else self._inbox.end.returncode

    @property
    def dropped(self) -> int:
        """How many bytes of its output were lost, because they were not read for too long."""
        return self._inbox.dropped

    def _ended(self) -> ProcessEnd:
        if self._inbox.end is not None:
            return self._inbox.end
        raise self._inbox.error or error_from("ended", "the process is not there any more")

    def _parts(self, data: bytes) -> list[Line]:
        starts = range(0, len(data), _WRITE_BYTES)
        parts = (data[start : start + _WRITE_BYTES] for start in starts)
        return [{"op": "proc_input", "proc": self.proc, "base64": b64encode(part).decode("ascii")} for part in parts]

    def __repr__(self) -> str:
        state = "running" if self.end is None else f"ended with {self.returncode}"
        return f"<{type(self).__name__} {self.proc} {' '.join(self.argv)[:60]!r}, {state}>"


class Process(_ProcessBase):
    """A process that was started by `session.spawn`. Iterating gives its output as it comes: `for part in process: part.data`.

    It ends with the session, and when the session goes back to a state from before it was started.
    """

    def _ask(self, fields: Line) -> Any:
        return drive(self._core.connection, self._core.name, _one(fields))

    def write(self, data: bytes) -> None:
        """Writes to its standard input, or types into its terminal. Waits until all of it was taken."""
        for fields in self._parts(data):
            self._ask(fields)

    def close_stdin(self) -> None:
        """Closes its standard input: it reads the end."""
        self._ask({"op": "proc_close", "proc": self.proc})

    def send_signal(self, signal: int) -> None:
        """Sends a signal to its process group."""
        self._ask({"op": "proc_signal", "proc": self.proc, "signal": int(signal)})

    def terminate(self) -> None:
        """Asks it to end (SIGTERM)."""
        self.send_signal(_SIGTERM)

    def kill(self) -> None:
        """Ends it with all that it started."""
        self._ask({"op": "proc_signal", "proc": self.proc})

    def resize(self, cols: int, rows: int) -> None:
        """Gives its terminal another size."""
        self._ask({"op": "proc_resize", "proc": self.proc, "cols": cols, "rows": rows})

    def wait(self, timeout: float | None = None) -> ProcessEnd:
        """Waits for its end. Raises `TimeoutError` after so many seconds; the process goes on then."""
        if not self._inbox.wait_for(lambda: self._inbox.is_over, timeout):
            raise TimeoutError(f"the process {self.proc} did not end within {timeout:g} s")
        return self._ended()

    def communicate(self, input: bytes | None = None) -> tuple[bytes, bytes]:
        """Writes `input`, closes the standard input, and returns all output and all error output when it has ended."""
        if input is not None:
            self.write(input)
            self.close_stdin()
        parts = list(self)
        return _joined(parts, "stdout", "pty"), _joined(parts, "stderr")

    def __iter__(self) -> Iterator[Output]:
        while True:
            self._inbox.wait_for(lambda: self._inbox.has_news)
            output = self._inbox.take()
            if output is None:
                self._ended()
                return
            yield output

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.end is None and self._core.is_open:
            self.kill()


class AsyncProcess(_ProcessBase):
    """A process that was started by `AsyncSession.spawn`: `async for part in process: part.data`."""

    async def _ask(self, fields: Line) -> Any:
        return await drive_async(self._core.connection, self._core.name, _one(fields))

    async def write(self, data: bytes) -> None:
        """Writes to its standard input, or types into its terminal. Waits until all of it was taken."""
        for fields in self._parts(data):
            await self._ask(fields)

    async def close_stdin(self) -> None:
        """Closes its standard input: it reads the end."""
        await self._ask({"op": "proc_close", "proc": self.proc})

    async def send_signal(self, signal: int) -> None:
        """Sends a signal to its process group."""
        await self._ask({"op": "proc_signal", "proc": self.proc, "signal": int(signal)})

    async def terminate(self) -> None:
        """Asks it to end (SIGTERM)."""
        await self.send_signal(_SIGTERM)

    async def kill(self) -> None:
        """Ends it with all that it started."""
        await self._ask({"op": "proc_signal", "proc": self.proc})

    async def resize(self, cols: int, rows: int) -> None:
        """Gives its terminal another size."""
        await self._ask({"op": "proc_resize", "proc": self.proc, "cols": cols, "rows": rows})

    async def wait(self, timeout: float | None = None) -> ProcessEnd:
        """Waits for its end. Raises `TimeoutError` after so many seconds; the process goes on then."""
        import asyncio

        ended = self._inbox.wait_for_async(lambda: self._inbox.is_over)
        try:
            await asyncio.wait_for(ended, timeout)
        except asyncio.TimeoutError:
            raise TimeoutError(f"the process {self.proc} did not end within {timeout} s") from None
        return self._ended()

    async def communicate(self, input: bytes | None = None) -> tuple[bytes, bytes]:
        """Writes `input`, closes the standard input, and returns all output and all error output when it has ended."""
        if input is not None:
            await self.write(input)
            await self.close_stdin()
        parts = [part async for part in self]
        return _joined(parts, "stdout", "pty"), _joined(parts, "stderr")

    async def __aiter__(self) -> AsyncIterator[Output]:
        while True:
            await self._inbox.wait_for_async(lambda: self._inbox.has_news)
            output = self._inbox.take()
            if output is None:
                self._ended()
                return
            yield output

    async def __aenter__(self) -> AsyncProcess:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.end is None and self._core.is_open:
            await self.kill()


ProcessKind = TypeVar("ProcessKind", Process, AsyncProcess)


def start(
    kind: type[ProcessKind],
    core: Core,
    args: str | Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    stdin: bool,
    pty: tuple[int, int] | None,
    tag: str | None,
    timeout: float | str | None,
) -> ProcessKind:
    """Asks for a process. The caller waits until `is_known`, and calls `started`."""
    is_line = isinstance(args, str)
    fields: Line = {
        "op": "spawn",
        "shell" if is_line else "argv": args if is_line else list(args),
        "cwd": None if cwd is None else str(cwd),
        "env": None if env is None else dict(env),
        "stdin": stdin,
        "pty": None if pty is None else {"cols": pty[0], "rows": pty[1]},
        "tag": tag,
        "timeout": timeout,
    }
    return _request(kind, core, fields, ["/bin/sh", "-c", args] if isinstance(args, str) else list(args))


def attach(kind: type[ProcessKind], core: Core, proc: str, after: int) -> ProcessKind:
    """Asks for the output of a process that was started before."""
    process = _request(kind, core, {"op": "proc_attach", "proc": proc, "after": after}, [])
    process.proc = proc
    return process


def _request(kind: type[ProcessKind], core: Core, fields: Line, argv: list[str]) -> ProcessKind:
    inbox = _Inbox()
    known = {name: value for name, value in fields.items() if value is not None and value is not False}
    send(core.connection, {"session": core.name, **known}, inbox.receive, last_event="proc_end")
    return kind(core, inbox, argv)


def started(process: ProcessKind) -> ProcessKind:
    """The process, once it is known that it was started. Raises what went wrong."""
    inbox = process._inbox
    if inbox.answer is None:
        raise inbox.error or error_from("ended", "the process is not there any more")
    process.proc = inbox.answer.get("proc", process.proc)
    process.pid = inbox.answer.get("pid", process.pid)
    return process


def running() -> Plan[list[ProcessInfo]]:
    """The processes that run."""
    return [ProcessInfo(**item) for item in (yield {"op": "procs"})]


def _one(fields: Line) -> Plan[Any]:
    return (yield fields)


def _joined(parts: list[Output], *streams: str) -> bytes:
    return b"".join(part.data for part in parts if part.stream in streams)
