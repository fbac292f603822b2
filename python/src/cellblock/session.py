"""Sessions for ordinary, blocking programs."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from . import _embedding as embedding
from . import _operations as operations
from ._base import SessionBase
from ._cells import RunningCell, is_last, needs_input, result_of, run_options
from ._connection import Line
from ._core import Core
from ._plans import Plan, drive
from .files import Files
from .result import Result

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from .events import Event, Numbered
    from .processes import Process, ProcessInfo
    from .records import Checkpoint, Completeness, Completion, Inspection, Undone, Variable
    from .watches import Watch

T = TypeVar("T")

# How long Ctrl-C waits for the cell to end. The session itself ends it harder after two seconds.
_PATIENCE_SECONDS = 5.0


class Session(SessionBase):
    """A sealed Python that remembers: variables, imports, functions and open files stay from cell to cell.

    It is opened at once, and closed by `close()`, by `with Session() as s:`, or when it is dropped. A cell that crashes, runs
    out of time or is killed leaves everything as it was before it. Threads may share a session: cells run one after the other.

    - `seed`: variables for the first cell: numbers, texts, bytes, lists, dicts, dates and the like.
    - `imports`: modules bound beforehand: `["np", "math", "from x import y"]`. `setup`: code that runs before the first cell.
    - `tools`: functions of yours that the code can call (`@tool`). `approve`: who is asked before a call (see `Approve`).
    - `input`: the function that answers `input()` of the code; without one, `input()` fails at once.
    - `workspace`: a directory of yours to work in; else a fresh one.
    - `workspace_at`: where code finds the workspace, such as `"/home/user"` or `"/mnt/data"`; else `/workspace`.
    - `env`: packages (`Env("pandas")`). `limits`: `Limits(memory="1GB", wall=10)`.
    - `network`: what it may reach (`Network("example.org")`); else nothing.
    - `atomic`: a cell that fails leaves nothing behind. `isolation`: `"full"`, `"landlock"`, `"none"`.
    - `strategy`: `"process"`; `"thread"`, which answers `vars` also while a cell runs; `"direct"`, without checkpoints.
    - `replay`: after a crash with only an older checkpoint, whether the cells since then are run again, or for how long at
      most (`5`, `"500ms"`); else 30 seconds. `arming`: `"strict"`, a cell waits for its checkpoint, or `"lazy"`.
    - `container`: run in a container. `host`: another binary or Python (`Host`), or a server (`Remote`).
    - `on_log`: is called with what threads of the session print between cells, on another thread.

    The other options are those of docs/sessions.md. Raises `Refused` for an option that is wrong, `BinaryError` when the program
    `cellblock` cannot be started.
    """

    def _begin(self) -> None:
        core = self._core
        connection = core.host._connect()
        name = core.open_fields.get("session") or connection.new_session_name()
        core.open_fields["session"] = name
        try:
            drive(connection, name, operations.open_session(core))
        except BaseException:
            # A name whose opening failed would stay taken.
            connection.send({"op": "close", "session": name})
            raise
        core.attach(connection, name)

    @classmethod
    def _of(cls, core: Core) -> Session:
        session = cls.__new__(cls)
        session._core = core
        return session

    def _ask(self, plan: Plan[T]) -> T:
        return drive(self._core.connection, self._core.name, plan)

    def run(
        self,
        code: str,
        *,
        timeout: float | str | None = None,
        atomic: bool | None = None,
        env: Mapping[str, str] | None = None,
        silent: bool = False,
    ) -> Result:
        """Runs a cell and waits for its result. Code that fails is a result too: look at `ok`, or call `check()`.

        `timeout` is in seconds (else the session's limit `wall`); `atomic` takes a failing cell back. `env` are
        variables of the environment that only this cell sees. `silent` leaves the value of the last expression alone. Ctrl-C
        interrupts the cell, waits for its end and raises `KeyboardInterrupt`; the session goes on.
        """
        inbox: SimpleQueue[Line] = SimpleQueue()
        cell = RunningCell(self._core, inbox.put, loop=None, wants_events=False)
        try:
            cell.ask(code, run_options(timeout, atomic, env, silent))
            while not is_last(line := cell.next_line(inbox)):
                if needs_input(line):
                    _answer_input(self._core, line)
        except KeyboardInterrupt:
            _interrupted(cell, inbox)
            raise
        return result_of(line)

    def stream(
        self,
        code: str,
        *,
        timeout: float | str | None = None,
        atomic: bool | None = None,
        env: Mapping[str, str] | None = None,
        silent: bool = False,
    ) -> Stream:
        """Runs a cell and gives its events as they come: `for event in session.stream(code): ...`. The last is `Finished`."""
        return Stream(self._core, code, run_options(timeout, atomic, env, silent))

    def interrupt(self) -> None:
        """Stops the cell that runs, as Ctrl-C would. For use from another thread."""
        self._ask(operations.interrupt())

    def seed(self, variables: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Binds variables in the session: `seed(n=3)` or `seed({"n": 3})`."""
        self._ask(operations.seed(self._core, {**(variables or {}), **more}))

    def __setitem__(self, name: str, value: Any) -> None:
        """`session["n"] = 3` binds a variable."""
        self._ask(operations.seed(self._core, {name: value}))

    def __getitem__(self, name: str) -> Any:
        """`session["n"]` reads a variable. Raises `KeyError` when there is none."""
        return self._ask(operations.get(self._core, name, Any))

    @overload
    def get(self, name: str) -> Any: ...
    @overload
    def get(self, name: str, kind: type[T]) -> T: ...
    @overload
    def get(self, name: str, kind: Any) -> Any: ...
    def get(self, name: str, kind: Any = Any) -> Any:
        """Reads a variable as a value of a type: `get("rows", list[int])`, `get("a", numpy.ndarray)`.

        Arrays and tables cross as `.npy` and Arrow. Raises `KeyError` when there is no such variable, and `WrongValue` when it is
        of another type or cannot cross.
        """
        return self._ask(operations.get(self._core, name, kind))

    def vars(self) -> list[Variable]:
        """The variables of the session: name, type, a summary, bytes."""
        return self._ask(operations.variables())

    def inspect(self, name: str) -> Inspection:
        """A closer look at one variable, which may be dotted: `inspect("df.columns")`."""
        return self._ask(operations.inspect(name))

    def compute(self, expression: str, why: str = "asked by the program") -> str:
        """The text of one expression, computed in a throw-away copy of the session: it changes nothing. It has 2 s and 256 MB."""
        return self._ask(operations.compute(expression, why))

    def complete(self, code: str, pos: int | None = None) -> list[Completion]:
        """What can stand at a place of a text (in code points; else its end): names, attributes, keys, paths. Runs no code."""
        return self._ask(embedding.complete(code, pos))

    def inspect_at(self, code: str, pos: int | None = None, *, detail: Literal[0, 1] = 0) -> dict[str, Any] | None:
        """Help about the name at a place of a text, by MIME type; `None` when it is not known. `detail=1` adds the source."""
        return self._ask(embedding.inspect_at(code, pos, detail))

    def is_complete(self, code: str) -> Completeness:
        """Whether a text can be run as it is, or needs more lines."""
        return self._ask(embedding.is_complete(code))

    def pause(self) -> None:
        """Stops all processes of the session until `resume()`. Files can be worked with meanwhile. Not while a cell runs."""
        self._ask(embedding.pause())

    def resume(self) -> None:
        """Lets the processes of a paused session go on."""
        self._ask(embedding.resume())

    def freeze(self, name: str | None = None) -> str:
        """Keeps the state aside, for `open_from(name)`. Gives the name of the snapshot."""
        return self._ask(embedding.freeze(name))

    def open_from(self, snapshot: str) -> Session:
        """A new session that begins with a state that was kept aside. It has the tools of this one."""
        return Session._of(self._ask(embedding.open_from(self._core, snapshot)))

    def discard(self, snapshot: str) -> None:
        """Forgets a state that was kept aside."""
        self._ask(embedding.discard(snapshot))

    def events(self, after: int = 0, *, follow: bool = True) -> Iterator[Numbered]:
        """All events of the session after a number, of every cell, and those that come until the session is over.

        With `follow=False` only those that have happened. The session keeps the newest 4096. Where some are missing, `Refused`
        with the code `gap` says which are there.
        """
        while True:
            wait = embedding.EVENT_WAIT_SECONDS if follow else 0.0
            found, last, is_over = self._ask(embedding.events(after, wait))
            yield from found
            if last == after and (is_over or not follow):
                return
            after = last

    def undo(self, cells: int = 1, *, to: Checkpoint | str | int | None = None) -> Undone:
        """Takes cells back, with their variables and files: the last one, the last `cells`, or all after the checkpoint `to`."""
        return self._ask(operations.undo(self._core, cells, to))

    def checkpoint(self, name: str) -> Checkpoint:
        """Gives the present state a name for `undo(to=name)`. It can be gone back to as long as the history holds it."""
        return self._ask(operations.name_checkpoint(self._core, name))

    def checkpoints(self) -> list[Checkpoint]:
        """The states that `undo` can go back to, newest first."""
        return self._ask(operations.checkpoints(self._core))

    @property
    def not_copied(self) -> list[str]:
        """In a fork: the parts of its parent's state that it does not have, such as processes and connections."""
        return list(self._core.not_copied)

    def fork(self) -> Session:
        """A second session that begins where this one stands, with variables and files of its own."""
        return Session._of(self._ask(operations.fork(self._core)))

    def spawn(
        self,
        args: str | Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bool = False,
        pty: tuple[int, int] | None = None,
        tag: str | None = None,
        timeout: float | str | None = None,
    ) -> Process:
        """Starts a process beside the interpreter, behind the same walls: `spawn(["make", "-j2"])`, or a line of the shell.

        It needs no free interpreter. `stdin`: something will be written to it. `pty`: a terminal of so many columns and rows in
        place of the pipes. `timeout`: ends it, with all that it started, after so many seconds. Raises `Refused` when it cannot
        be started.
        """
        from . import processes

        process = processes.start(
            processes.Process, self._core, args, cwd=cwd, env=env, stdin=stdin, pty=pty, tag=tag, timeout=timeout
        )
        process._inbox.wait_for(lambda: process._inbox.is_known)
        return processes.started(process)

    def processes(self) -> list[ProcessInfo]:
        """The processes that were spawned and have not ended."""
        from . import processes

        return self._ask(processes.running())

    def attach(self, proc: str, *, after: int = 0) -> Process:
        """A spawned process by its name, with its output from the byte `after` on."""
        from . import processes

        process = processes.attach(processes.Process, self._core, proc, after)
        process._inbox.wait_for(lambda: process._inbox.is_known)
        return processes.started(process)

    def watch(self, path: str = "/workspace", *, recursive: bool = False) -> Watch:
        """Watches a directory, by the path that the code of the session knows: `for change in session.watch("/workspace"): ...`.

        With `recursive`, also the directories below it. Changes come while cells run, and what `undo` changes in the files comes
        too. At most 64 directories at once.
        """
        from . import watches

        watch = watches.start(watches.Watch, self._core, path, recursive)
        watch._inbox.wait_for(lambda: watch._inbox.is_known)
        return watches.started(watch)

    def reset(self) -> None:
        """Forgets all variables. Files, tools and `imports` stay."""
        self._ask(operations.reset())

    def set_tools(self, tools: Iterable[Any]) -> None:
        """Offers these tools to the code, and no others."""
        self._ask(operations.set_tools(self._core, tools))

    @property
    def files(self) -> Files:
        """The files of the workspace: `files["in.csv"] = b"..."`, `files.read("out.csv")`, `files.list()`."""
        return Files(self, self._core, self._ask)

    def read_output(
        self, cell: int, stream: Literal["stdout", "stderr", "output"] = "output", *, offset: int = 0, length: int | None = None
    ) -> str:
        """A part of what a cell wrote, in bytes from `offset`, also beyond what its result holds."""
        return self._ask(operations.read_output(cell, stream, offset, length))

    def notebook(self, path: str | os.PathLike[str]) -> Path:
        """Writes the cells that were kept, with their outputs, as a Jupyter notebook. Needs the journal (on by default)."""
        from pathlib import Path

        from .journal import export

        return export(self._core, "notebook", Path(path))

    def script(self, path: str | os.PathLike[str]) -> Path:
        """Writes the cells that were kept as a script for `python3` alone."""
        from pathlib import Path

        from .journal import export

        return export(self._core, "script", Path(path))

    def transcript(self) -> list[dict[str, Any]]:
        """What happened in the session: each cell with its code, result and fate, as its journal has it."""
        from .journal import transcript

        return transcript(self._core)

    def close(self) -> None:
        """Ends the session, also while a cell runs. All is gone but the files of its workspace. A second call does nothing."""
        core = self._core
        if core.is_open:
            connection, name = core.end()
            drive(connection, name, operations.close_session())
        core.mark_closed()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _repr_html_(self) -> str:
        """In a notebook: the variables as a table."""
        from html import escape

        if not self.is_open:
            return f"<p>{escape(repr(self))}</p>"
        rows = "".join(
            f"<tr><td>{escape(one.name)}</td><td>{escape(one.type)}</td><td>{escape(one.summary)}</td></tr>"
            for one in self.vars()
        )
        return f"<p>{escape(repr(self))}</p><table><tr><th>name</th><th>type</th><th>value</th></tr>{rows}</table>"


class Stream(Iterator["Event"]):
    """The events of a running cell. After the last one, `result` has its result. Closing or dropping it interrupts the cell."""

    def __init__(self, core: Core, code: str, options: Line) -> None:
        self._core = core
        self._inbox: SimpleQueue[Line] = SimpleQueue()
        self._cell = RunningCell(core, self._inbox.put, loop=None, wants_events=True)
        self._result: Result | None = None
        self._is_done = False
        self._cell.start(code, options)

    @property
    def result(self) -> Result:
        """The result of the cell. Waits for it, and passes over the events before it."""
        while self._result is None:
            next(self)
        return self._result

    def interrupt(self) -> None:
        """Stops the cell. Its result still comes."""
        self._cell.interrupt()

    def close(self) -> None:
        """Stops the cell, if it still runs, and reads no more."""
        self._is_done = True
        self._cell.interrupt()

    def __next__(self) -> Event:
        from .events import event_from

        while not self._is_done:
            try:
                line = self._inbox.get()
                if needs_input(line):
                    _answer_input(self._core, line)
            except KeyboardInterrupt:
                self._is_done = True
                _interrupted(self._cell, self._inbox)
                raise
            if is_last(line):
                self._is_done = True
                self._result = result_of(line)
            event = event_from(line)
            if event is not None:
                return event
        raise StopIteration

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        cell = getattr(self, "_cell", None)
        if cell is not None:
            cell.abandon()


def _answer_input(core: Core, line: Line) -> None:
    from ._calls import answer_input

    answer_input(core, line)


def _interrupted(cell: RunningCell, inbox: SimpleQueue[Line]) -> None:
    """Ctrl-C: the cell is interrupted, and its end awaited for a while, so that the session is free again."""
    cell.interrupt()
    try:
        while cell.is_waiting() and not is_last(inbox.get(timeout=_PATIENCE_SECONDS)):
            pass
    except Empty:
        pass
