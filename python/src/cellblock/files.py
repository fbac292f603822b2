"""The files of a session's workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _operations as operations
from .errors import Refused

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path
    from typing import TypeAlias

    from ._core import Core
    from .records import File

    PathLike = str | os.PathLike[str]
    # The methods called `list` hide the type inside their classes.
    FileList: TypeAlias = list[File]
    PathList: TypeAlias = list[Path]


class Files:
    """The files of a session's workspace, by their paths in it. It is used like a dict of bytes, too.

    Paths are relative and stay in the workspace; a link that leads out is refused.
    """

    def __init__(self, session: object, core: Core, ask: Callable[[Any], Any]) -> None:
        self._session = session  # as long as its files are used, it stays open
        self._core = core
        self._ask = ask

    def read(self, path: str) -> bytes:
        """The contents of a file. Raises `Refused` when there is none."""
        contents: bytes = self._ask(operations.read_file(path))
        return contents

    def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """The contents of a file as text."""
        return self.read(path).decode(encoding)

    def write(self, path: str, contents: bytes | str) -> None:
        """Writes a file, with the directories above it. Text is written as UTF-8."""
        self._ask(operations.write_file(self._core, path, as_bytes(contents)))

    def list(self) -> FileList:
        """All files of the workspace: path, bytes, type, time of the last change."""
        listed: FileList = self._ask(operations.list_files())
        return listed

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
        contents: bytes = await self._ask(operations.read_file(path))
        return contents

    async def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """The contents of a file as text."""
        return (await self.read(path)).decode(encoding)

    async def write(self, path: str, contents: bytes | str) -> None:
        """Writes a file, with the directories above it. Text is written as UTF-8."""
        await self._ask(operations.write_file(self._core, path, as_bytes(contents)))

    async def list(self) -> FileList:
        """All files of the workspace: path, bytes, type, time of the last change."""
        listed: FileList = await self._ask(operations.list_files())
        return listed

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
