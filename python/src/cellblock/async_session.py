"""Sessions for programs with an event loop. The same names as in `Session`, awaited."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

from . import _embedding as embedding
from . import _operations as operations
from ._base import SessionBase
from ._calls import answer_input
from ._cells import RunningCell, is_last, needs_input, result_of, run_options
from ._connection import Line
from ._core import Core
from ._plans import Plan, drive_async
from ._workers import workers
from .events import Event, Numbered, event_from
from .files import AsyncFiles
from .processes import AsyncProcess, ProcessInfo
from .records import Checkpoint, Completeness, Completion, Inspection, Undone, Variable
from .result import Result
from .watches import AsyncWatch

T = TypeVar("T")


class AsyncSession(SessionBase):
    """A sealed Python that remembers, for programs with an event loop. `Session` has the options in words.

    It is opened by `async with AsyncSession() as s:`, by `await s.open()`, or by the first thing that is asked of it; closed by
    `await s.close()`, by the end of `async with`, or when it is dropped. Tools that are `async` run on the loop of the cell that
    calls them. Cancelling `run` interrupts the cell.
    """

    async def open(self) -> AsyncSession:
        """Opens the session, if it is not open yet, and gives the session itself."""
        async with self._opening():
            if not self._core.was_opened:
                await self._open_now()
        return self

    def _opening(self) -> asyncio.Lock:
        lock: asyncio.Lock | None = getattr(self, "_lock", None)
        if lock is None:
            lock = self._lock = asyncio.Lock()
        return lock

    async def _open_now(self) -> None:
        core = self._core
        # The child is started on another thread: it may take some milliseconds, and a version is asked for.
        connection = await asyncio.get_running_loop().run_in_executor(None, core.host._connect)
        name = core.open_fields.get("session") or connection.new_session_name()
        core.open_fields["session"] = name
        try:
            await drive_async(connection, name, operations.open_session(core))
        except BaseException:
            connection.send_later({"op": "close", "session": name})
            raise
        core.attach(connection, name)

    @classmethod
    def _of(cls, core: Core) -> AsyncSession:
        session = cls.__new__(cls)
        session._core = core
        return session

    async def _ask(self, plan: Plan[T]) -> T:
        if not self._core.was_opened:
            await self.open()
        return await drive_async(self._core.connection, self._core.name, plan)

    async def run(
        self,
        code: str,
        *,
        timeout: float | str | None = None,
        atomic: bool | None = None,
        env: Mapping[str, str] | None = None,
        silent: bool = False,
    ) -> Result:
        """Runs a cell and waits for its result. Code that fails is a result too. Cancelling interrupts the cell.

        `env` are variables of the environment that only this cell sees. `silent` leaves the value of the last expression alone.
        """
        last: Line = {}
        async for line in self._lines(code, run_options(timeout, atomic, env, silent), wants_events=False):
            last = line
        return result_of(last)

    async def stream(
        self,
        code: str,
        *,
        timeout: float | str | None = None,
        atomic: bool | None = None,
        env: Mapping[str, str] | None = None,
        silent: bool = False,
    ) -> AsyncIterator[Event]:
        """Runs a cell and gives its events as they come: `async for event in session.stream(code)`. The last is `Finished`."""
        async for line in self._lines(code, run_options(timeout, atomic, env, silent), wants_events=True):
            if line["event"] == "error":
                result_of(line)
            event = event_from(line)
            if event is not None:
                yield event

    async def _lines(self, code: str, options: Line, *, wants_events: bool) -> AsyncIterator[Line]:
        if not self._core.was_opened:
            await self.open()
        core, loop = self._core, asyncio.get_running_loop()
        inbox: asyncio.Queue[Line] = asyncio.Queue()

        def deliver(line: Line) -> None:
            try:
                loop.call_soon_threadsafe(inbox.put_nowait, line)
            except RuntimeError:
                pass  # the loop is closed: no task waits

        cell = RunningCell(core, deliver, loop=loop, wants_events=wants_events)
        try:
            cell.start(code, options)
            while not is_last(line := await inbox.get()):
                if needs_input(line):
                    _answer_input(core, line)
                if wants_events:
                    yield line
            yield line
        finally:
            # Cancelled, or the caller does not want the rest.
            cell.interrupt()

    async def interrupt(self) -> None:
        """Stops the cell that runs, as Ctrl-C would."""
        await self._ask(operations.interrupt())

    async def seed(self, variables: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Binds variables in the session: `await seed(n=3)`."""
        await self._ask(operations.seed(self._core, {**(variables or {}), **more}))

    @overload
    async def get(self, name: str) -> Any: ...
    @overload
    async def get(self, name: str, kind: type[T]) -> T: ...
    @overload
    async def get(self, name: str, kind: Any) -> Any: ...
    async def get(self, name: str, kind: Any = Any) -> Any:
        """Reads a variable as a value of a type: `await get("rows", list[int])`. Raises `KeyError` when there is none."""
        return await self._ask(operations.get(self._core, name, kind))

    async def vars(self) -> list[Variable]:
        """The variables of the session: name, type, a summary, bytes."""
        return await self._ask(operations.variables())

    async def inspect(self, name: str) -> Inspection:
        """A closer look at one variable, which may be dotted."""
        return await self._ask(operations.inspect(name))

    async def compute(self, expression: str, why: str = "asked by the program") -> str:
        """The text of one expression, computed in a throw-away copy of the session: it changes nothing."""
        return await self._ask(operations.compute(expression, why))

    async def complete(self, code: str, pos: int | None = None) -> list[Completion]:
        """What can stand at a place of a text (in code points; else its end): names, attributes, keys, paths. Runs no code."""
        return await self._ask(embedding.complete(code, pos))

    async def inspect_at(self, code: str, pos: int | None = None, *, detail: Literal[0, 1] = 0) -> dict[str, Any] | None:
        """Help about the name at a place of a text, by MIME type; `None` when it is not known. `detail=1` adds the source."""
        return await self._ask(embedding.inspect_at(code, pos, detail))

    async def is_complete(self, code: str) -> Completeness:
        """Whether a text can be run as it is, or needs more lines."""
        return await self._ask(embedding.is_complete(code))

    async def pause(self) -> None:
        """Stops all processes of the session until `resume()`. Files can be worked with meanwhile. Not while a cell runs."""
        await self._ask(embedding.pause())

    async def resume(self) -> None:
        """Lets the processes of a paused session go on."""
        await self._ask(embedding.resume())

    async def freeze(self, name: str | None = None) -> str:
        """Keeps the state aside, for `open_from(name)`. Gives the name of the snapshot."""
        return await self._ask(embedding.freeze(name))

    async def open_from(self, snapshot: str) -> AsyncSession:
        """A new session that begins with a state that was kept aside. It has the tools of this one."""
        return AsyncSession._of(await self._ask(embedding.open_from(self._core, snapshot)))

    async def discard(self, snapshot: str) -> None:
        """Forgets a state that was kept aside."""
        await self._ask(embedding.discard(snapshot))

    async def events(self, after: int = 0, *, follow: bool = True) -> AsyncIterator[Numbered]:
        """All events of the session after a number, of every cell, and those that come until the session is over.

        With `follow=False` only those that have happened. The session keeps the newest 4096. Where some are missing, `Refused`
        with the code `gap` says which are there.
        """
        while True:
            wait = embedding.EVENT_WAIT_SECONDS if follow else 0.0
            found, last, is_over = await self._ask(embedding.events(after, wait))
            for event in found:
                yield event
            if last == after and (is_over or not follow):
                return
            after = last

    async def undo(self, cells: int = 1, *, to: Checkpoint | str | int | None = None) -> Undone:
        """Takes cells back, with their variables and files: the last one, the last `cells`, or all after the checkpoint `to`."""
        return await self._ask(operations.undo(self._core, cells, to))

    async def checkpoint(self, name: str) -> Checkpoint:
        """Gives the present state a name for `undo(to=name)`."""
        return await self._ask(operations.name_checkpoint(self._core, name))

    async def checkpoints(self) -> list[Checkpoint]:
        """The states that `undo` can go back to, newest first."""
        return await self._ask(operations.checkpoints(self._core))

    @property
    def not_copied(self) -> list[str]:
        """In a fork: the parts of its parent's state that it does not have, such as processes and connections."""
        return list(self._core.not_copied)

    async def fork(self) -> AsyncSession:
        """A second session that begins where this one stands, with variables and files of its own."""
        return AsyncSession._of(await self._ask(operations.fork(self._core)))

    async def spawn(
        self,
        args: str | Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bool = False,
        pty: tuple[int, int] | None = None,
        tag: str | None = None,
        timeout: float | str | None = None,
    ) -> AsyncProcess:
        """Starts a process beside the interpreter, behind the same walls: `await spawn(["make", "-j2"])`, or a line of the shell.

        It needs no free interpreter. `stdin`: something will be written to it. `pty`: a terminal of so many columns and rows in
        place of the pipes. `timeout`: ends it, with all that it started, after so many seconds. Raises `Refused` when it cannot
        be started.
        """
        from . import processes

        if not self._core.was_opened:
            await self.open()
        process = processes.start(
            processes.AsyncProcess, self._core, args, cwd=cwd, env=env, stdin=stdin, pty=pty, tag=tag, timeout=timeout
        )
        await process._inbox.wait_for_async(lambda: process._inbox.is_known)
        return processes.started(process)

    async def processes(self) -> list[ProcessInfo]:
        """The processes that were spawned and have not ended."""
        from . import processes

        return await self._ask(processes.running())

    async def attach(self, proc: str, *, after: int = 0) -> AsyncProcess:
        """A spawned process by its name, with its output from the byte `after` on."""
        from . import processes

        process = processes.attach(processes.AsyncProcess, self._core, proc, after)
        await process._inbox.wait_for_async(lambda: process._inbox.is_known)
        return processes.started(process)

    async def watch(self, path: str = "/workspace", *, recursive: bool = False) -> AsyncWatch:
        """Watches a directory, by the path that the code of the session knows: `async for change in await session.watch():`.

        With `recursive`, also the directories below it. Changes come while cells run, and what `undo` changes in the files comes
        too. At most 64 directories at once.
        """
        from . import watches

        if not self._core.was_opened:
            await self.open()
        watch = watches.start(watches.AsyncWatch, self._core, path, recursive)
        await watch._inbox.wait_for_async(lambda: watch._inbox.is_known)
        return watches.started(watch)

    async def reset(self) -> None:
        """Forgets all variables. Files, tools and `imports` stay."""
        await self._ask(operations.reset())

    async def set_tools(self, tools: Iterable[Any]) -> None:
        """Offers these tools to the code, and no others."""
        await self._ask(operations.set_tools(self._core, tools))

    @property
    def files(self) -> AsyncFiles:
        """The files of the workspace: `await files.write("in.csv", b"...")`, `await files.read("out.csv")`."""
        return AsyncFiles(self, self._core, self._ask)

    async def read_output(
        self, cell: int, stream: Literal["stdout", "stderr", "output"] = "output", *, offset: int = 0, length: int | None = None
    ) -> str:
        """A part of what a cell wrote, in bytes from `offset`, also beyond what its result holds."""
        return await self._ask(operations.read_output(cell, stream, offset, length))

    async def notebook(self, path: str | os.PathLike[str]) -> Path:
        """Writes the cells that were kept, with their outputs, as a Jupyter notebook."""
        from .journal import export

        return await asyncio.to_thread(export, self._core, "notebook", Path(path))

    async def script(self, path: str | os.PathLike[str]) -> Path:
        """Writes the cells that were kept as a script for `python3` alone."""
        from .journal import export

        return await asyncio.to_thread(export, self._core, "script", Path(path))

    async def transcript(self) -> list[dict[str, Any]]:
        """What happened in the session: each cell with its code, result and fate."""
        from .journal import transcript

        return await asyncio.to_thread(transcript, self._core)

    async def close(self) -> None:
        """Ends the session. A second call does nothing."""
        core = self._core
        if core.is_open:
            connection, name = core.end()
            await drive_async(connection, name, operations.close_session())
        core.mark_closed()

    async def __aenter__(self) -> AsyncSession:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


def _answer_input(core: Core, line: Line) -> None:
    """Answers `input()` on another thread, so that the loop goes on."""

    def job() -> None:
        try:
            answer_input(core, line)
        except BaseException:
            pass  # the call was refused; an interrupt has no meaning on this thread

    workers.run(job)
