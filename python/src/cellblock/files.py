"""The files of a session's workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _embedding as embedding
from . import _operations as operations
from .errors import Refused

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path
    from typing import TypeAlias

    from ._core import Core
    from .records import File, PathStat

    PathLike = str | os.PathLike[str]
    # The methods called `list` hide the type inside their classes.
    FileList: TypeAlias = list[File]
    PathList: TypeAlias = list[Path]
    PathStats: TypeAlias = list[PathStat]


class Files:
    """The files of a session's workspace, by their paths in it. It is used like a dict of bytes, too.

    A relative path is one in the workspace. `read` and `write` also take absolute paths, as the code of the session knows them:
    for the workspace, `/tmp` and `/dev/shm`, and for reading everything else that it sees. A link that leads out is refused.
    """

    def __init__(self, session: object, core: Core, ask: Callable[[Any], Any]) -> None:
        self._session = session  # as long as its files are used, it stays open
        self._core = core
        self._ask = ask

    def read(self, path: str) -> bytes:
        """The contents of a file. Raises `Refused` when there is none."""
        contents: bytes = self._ask(embedding.read(path) if path.startswith("/") else operations.read_file(path))
        return contents

    def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """The contents of a file as text."""
        return self.read(path).decode(encoding)

    def write(self, path: str, contents: bytes | str) -> None:
        """Writes a file, with the directories above it. Text is written as UTF-8."""
        data = as_bytes(contents)
        self._ask(embedding.write(path, data) if path.startswith("/") else operations.write_file(self._core, path, data))

    def list(self) -> FileList:
        """All files of the workspace: path, bytes, type, time of the last change."""
        listed: FileList = self._ask(operations.list_files())
        return listed

    def stat(self, path: str) -> PathStat:
        """What is at an absolute path, as the code of the session knows it."""
        found: PathStat = self._ask(embedding.stat(path))
        return found

    def list_dir(self, path: str | None = None, depth: int = 1) -> PathStats:
        """What is in a directory (absolute path; else the workspace), and below it down to `depth` levels."""
        found: PathStats = self._ask(embedding.list_dir(path or self._core.workspace_at, depth))
        return found

    def make_dir(self, path: str) -> None:
        """Makes a directory (absolute path), with those above it."""
        self._ask(embedding.make_dir(path))

    def move(self, path: str, to: str) -> None:
        """Renames a file or a directory (absolute paths). Nothing may be at the new name."""
        self._ask(embedding.move(path, to))

    def remove(self, path: str) -> None:
        """Removes a file, or a directory with all that is in it (absolute path)."""
        self._ask(embedding.remove(path))

    def upload(self, source: PathLike, path: str | None = None) -> None:
        """Copies a file or a directory of this machine into the workspace, under its own name or as `path`."""
        from pathlib import Path

        self._ask(operations.upload(self._core, Path(source), path or Path(source).resolve().name))

    def download(self, path: str = "", target: PathLike = ".") -> PathList:
        """Copies a file, or everything below a directory, from the workspace to `target`. Gives the paths that were written."""
        from pathlib import Path

        written: PathList = self._ask(operations.download(path, Path(target)))
        return written

    def __getitem__(self, path: str) -> bytes:
        try:
            return self.read(path)
        except Refused as error:
            raise (KeyError(path) if error.code == "file" else error) from None

    def __setitem__(self, path: str, contents: bytes | str) -> None:
        self.write(path, contents)

    def __contains__(self, path: object) -> bool:
        return any(file.path == path for file in self.list())

    def __iter__(self) -> Iterator[str]:
        return iter([file.path for file in self.list()])

    def __len__(self) -> int:
        return len(self.list())

    def __repr__(self) -> str:
        return f"<Files of {self._core.name}>"


class AsyncFiles:
    """The files of an `AsyncSession`: the same names as `Files`, awaited."""

    def __init__(self, session: object, core: Core, ask: Callable[[Any], Awaitable[Any]]) -> None:
        self._session = session
        self._core = core
        self._ask = ask

    async def read(self, path: str) -> bytes:
        """The contents of a file. Raises `Refused` when there is none."""
        contents: bytes = await self._ask(embedding.read(path) if path.startswith("/") else operations.read_file(path))
        return contents

    async def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """The contents of a file as text."""
        return (await self.read(path)).decode(encoding)

    async def write(self, path: str, contents: bytes | str) -> None:
        """Writes a file, with the directories above it. Text is written as UTF-8."""
        data = as_bytes(contents)
        await self._ask(embedding.write(path, data) if path.startswith("/") else operations.write_file(self._core, path, data))

    async def list(self) -> FileList:
        """All files of the workspace: path, bytes, type, time of the last change."""
        listed: FileList = await self._ask(operations.list_files())
        return listed

    async def stat(self, path: str) -> PathStat:
        """What is at an absolute path, as the code of the session knows it."""
        found: PathStat = await self._ask(embedding.stat(path))
        return found

    async def list_dir(self, path: str | None = None, depth: int = 1) -> PathStats:
        """What is in a directory (absolute path; else the workspace), and below it down to `depth` levels."""
        found: PathStats = await self._ask(embedding.list_dir(path or self._core.workspace_at, depth))
        return found

    async def make_dir(self, path: str) -> None:
        """Makes a directory (absolute path), with those above it."""
        await self._ask(embedding.make_dir(path))

    async def move(self, path: str, to: str) -> None:
        """Renames a file or a directory (absolute paths). Nothing may be at the new name."""
        await self._ask(embedding.move(path, to))

    async def remove(self, path: str) -> None:
        """Removes a file, or a directory with all that is in it (absolute path)."""
        await self._ask(embedding.remove(path))

    async def upload(self, source: PathLike, path: str | None = None) -> None:
        """Copies a file or a directory of this machine into the workspace, under its own name or as `path`."""
        from pathlib import Path

        await self._ask(operations.upload(self._core, Path(source), path or Path(source).resolve().name))

    async def download(self, path: str = "", target: PathLike = ".") -> PathList:
        """Copies a file, or everything below a directory, from the workspace to `target`. Gives the paths that were written."""
        from pathlib import Path

        written: PathList = await self._ask(operations.download(path, Path(target)))
        return written

    def __repr__(self) -> str:
        return f"<AsyncFiles of {self._core.name}>"


def as_bytes(contents: object) -> bytes:
    """What a file is to hold."""
    if isinstance(contents, str):
        return contents.encode("utf-8")
    if isinstance(contents, (bytes, bytearray, memoryview)):
        return bytes(contents)
    raise TypeError(f"a file holds bytes or text, got {type(contents).__name__}")
