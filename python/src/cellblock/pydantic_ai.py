"""pydantic-ai: a workspace for the commands and files of an agent, and a toolset with a Python that remembers.

    from cellblock.pydantic_ai import CellblockToolset, CellblockWorkspaceBackend

    Agent(model, toolsets=[CellblockToolset()])
    agent.run_sync(prompt, workspace=CellblockWorkspaceBackend())

docs/python/pydantic-ai.md has the rest.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic_ai.messages import WorkspaceRef
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    WorkspaceOutputLimitError,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from . import _commands as commands
from ._adapters import MAX_TEXT, RUN_PYTHON
from .async_session import AsyncSession
from .errors import BinaryError, CellFailed, Ended

__all__ = ["CellblockToolset", "CellblockWorkspaceBackend"]

T = TypeVar("T")
_PROVIDER = "cellblock"
# A session lives until it is destroyed or this process ends, as the contract of workspaces has it.
_sessions: dict[str, AsyncSession] = {}


class CellblockWorkspaceBackend:
    """A workspace that is a session. Takes the options of `AsyncSession`, or the `ref` of a workspace of this process.

    The session is opened by the first operation. It stays when a run ends: `destroy()` closes it, and so does the end of this
    process. Commands and files run one after the other.
    """

    def __init__(self, ref: WorkspaceRef | None = None, **options: Any) -> None:
        if ref is not None and options:
            raise TypeError("give the ref of a workspace, or options for a new one, not both")
        if ref is not None and ref.provider != _PROVIDER:
            raise ValueError(f"{ref!r} is no workspace of Cellblock")
        self._ref = ref
        self._options = options
        self._place: str | None = None
        self._opening = asyncio.Lock()

    @property
    def ref(self) -> WorkspaceRef | None:
        """The identity of the workspace: `None` before its first use. It holds in this process."""
        return self._ref

    async def session(self) -> AsyncSession:
        """The session itself, with variables, undo and forks."""
        async with self._opening:
            if self._ref is None:
                session = AsyncSession(**self._options)
                try:
                    await session.open()
                except BinaryError as error:
                    raise WorkspaceUnavailableError(str(error)) from error
                _sessions[session.name] = session
                self._ref = WorkspaceRef(provider=_PROVIDER, id=session.name)
        found = _sessions.get(self._ref.id)
        if found is None or not found.is_open:
            raise WorkspaceUnavailableError(f"the session {self._ref.id} is over")
        return found

    async def destroy(self) -> None:
        """Closes the session with everything in it."""
        session = None if self._ref is None else _sessions.pop(self._ref.id, None)
        if session is not None:
            await session.close()

    async def working_dir(self) -> str:
        """The directory that commands begin in."""
        if self._place is None:
            self._place = await self._do(commands.working_directory())
        else:
            await self.session()
        return self._place

    async def run(
        self,
        command: str | Sequence[str],
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Runs a program, or a line of the shell with `shell=True`."""
        if isinstance(command, str) is not shell:
            raise TypeError("a text needs shell=True, and a list of words shell=False")
        if timeout is not None and not 0 < timeout < float("inf"):
            raise ValueError("timeout must be a positive finite number or None")
        place = await self.working_dir()
        done = await self._do(commands.run_command(command, cwd=place, env=env, timeout=timeout))
        stdout, stderr = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        if done.is_late:
            raise WorkspaceTimeoutError(f"the command did not end within {timeout} s", stdout=stdout, stderr=stderr)
        if done.is_cut:
            limit = commands.MAX_OUTPUT_BYTES
            raise WorkspaceOutputLimitError(f"the output has more than {limit} bytes", limit=limit, stdout=stdout, stderr=stderr)
        return CommandResult(exit_code=done.exit_code, stdout=stdout, stderr=stderr)

    async def read_bytes(self, path: str) -> bytes:
        """Reads a file."""
        return await self._do(commands.read_bytes(path))

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Writes a file, with the directories above it."""
        await self._do(commands.write_bytes(path, data, parents=True))

    async def stat(self, path: str) -> FileEntry:
        """What is at a path; links are followed."""
        return _file_entry(path, await self._do(commands.look(path)))

    async def list_dir(self, path: str) -> list[FileEntry]:
        """What a directory holds, by name."""
        entries = await self._do(commands.list_directory(path))
        return [_file_entry(posixpath.join(path, entry.name), entry) for entry in entries]

    async def make_dir(self, path: str) -> None:
        """Makes a directory, with those above it."""
        await self._do(commands.make_directory(path))

    async def remove(self, path: str) -> None:
        """Removes a file, a link, or a directory with everything in it; never the working directory or one above it."""
        place, target = await self.working_dir(), posixpath.normpath(path)
        if target == "/" or place == target or place.startswith(target + "/"):
            raise ValueError(f"{path} is the working directory or above it")
        await self._do(commands.remove(path, recursive=True))

    async def exists(self, path: str) -> bool:
        """Whether there is something at the path."""
        try:
            await self._do(commands.look(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    async def realpath(self, path: str) -> str:
        """The absolute path without links."""
        return await self._do(commands.real_path(path))

    async def _do(self, steps: commands.Steps[T]) -> T:
        session = await self.session()
        try:
            return await commands.carry_out_async(session, steps)
        except Ended as error:
            raise WorkspaceUnavailableError(str(error)) from error
        except CellFailed as error:
            if session.is_open:
                raise
            # The session was closed while the cell ran.
            raise WorkspaceUnavailableError(f"the session {session.name} is over") from error


def _file_entry(path: str, entry: commands.Entry) -> FileEntry:
    is_file = entry.kind == "file"
    return FileEntry(
        name=posixpath.basename(path.rstrip("/")),
        path=path,
        is_dir=entry.kind == "directory",
        size=entry.bytes if is_file else None,
    )


class CellblockToolset(FunctionToolset[Any]):  # type: ignore[misc, unused-ignore]
    """A tool `run_python(code)` that remembers. Each run of an agent has a session of its own, closed at its end.

    Takes the options of `AsyncSession`. With `session=`, all runs share that session, and it stays open.
    """

    def __init__(self, session: AsyncSession | None = None, *, id: str | None = None, **options: Any) -> None:
        if session is not None and options:
            raise TypeError("give a session, or options for a new one, not both")
        super().__init__(id=id)
        self._owns_session = session is None
        self._given, self._id_given, self._options = session, id, options
        self._session = session if session is not None else AsyncSession(**options)
        self.add_function(self._run_python, name="run_python", description=RUN_PYTHON, sequential=True)

    async def _run_python(self, code: str) -> str:
        return (await self._session.run(code)).as_text(MAX_TEXT)

    async def for_run(self, ctx: Any) -> CellblockToolset:
        """The toolset of one run."""
        return self if self._given is not None else CellblockToolset(id=self._id_given, **self._options)

    async def __aexit__(self, *args: Any) -> bool | None:
        if self._owns_session:
            await self._session.close()
        return None
