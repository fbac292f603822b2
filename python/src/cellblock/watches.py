"""Watched directories of a session: `with session.watch("/workspace") as watch: ...`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from ._connection import Line
from ._inbox import Inbox
from ._plans import drive, drive_async, send
from .errors import CellblockError, error_from

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from types import TracebackType

    from ._core import Core
    from ._plans import Plan

# Changes that are not read yet: what is more is dropped, oldest first, and told as `lost`.
MAX_UNREAD = 100_000


class FileChange(NamedTuple):
    """A change in a watched directory. `to` is the new path of what was renamed.

    `attributes`: permissions, owner or times were changed. `lost`: changes are missing, because there were too many; `path` is
    the watched directory, which is to be listed anew.
    """

    kind: Literal["create", "write", "rename", "remove", "attributes", "lost"]
    path: str
    to: str | None = None


class _Inbox(Inbox[FileChange]):
    """The changes of one watch that were not read yet."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._is_ended = False

    def _take(self, line: Line) -> None:
        if line["event"] == "fs":
            self._unread.append(FileChange(line["kind"], line["path"], line.get("to")))
            if len(self._unread) > MAX_UNREAD:
                self._unread.clear()
                self._unread.append(FileChange("lost", self._path))
        elif line["event"] == "fs_end":
            self._is_ended = True

    @property
    def is_over(self) -> bool:
        """Whether the watch ended, or its session did."""
        return self._is_ended or self.error is not None


class _WatchBase:
    """What both kinds of watch know."""

    def __init__(self, core: Core, inbox: _Inbox, path: str) -> None:
        self._core = core
        self._inbox = inbox
        self.path = path
        """The directory, as code of the session knows it."""
        self.name = ""
        """Its name in the session."""

    @property
    def is_over(self) -> bool:
        """Whether the watch was closed, or its session was."""
        return self._inbox.is_over

    def _taken(self) -> list[FileChange]:
        changes: list[FileChange] = []
        while (change := self._inbox.take()) is not None:
            changes.append(change)
        return changes

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} of {self.path!r}{', over' if self.is_over else ''}>"


class Watch(_WatchBase):
    """A directory that is watched. Iterating waits for the changes, one by one, until the watch or its session is closed."""

    def take(self, timeout: float | None = None) -> list[FileChange]:
        """The changes that were not read yet. Waits for one; an empty list after so many seconds or when it is over."""
        self._inbox.wait_for(lambda: self._inbox.has_news, timeout)
        return self._taken()

    def close(self) -> None:
        """Ends the watch. Changes that came before can still be read."""
        if not self.is_over and self._core.is_open:
            try:
                drive(self._core.connection, self._core.name, _end(self.name))
                self._inbox.wait_for(lambda: self.is_over)
            except CellblockError:
                if not self.is_over:
                    raise

    def __iter__(self) -> Iterator[FileChange]:
        while True:
            self._inbox.wait_for(lambda: self._inbox.has_news)
            change = self._inbox.take()
            if change is None:
                return
            yield change

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class AsyncWatch(_WatchBase):
    """A directory that is watched: `async for change in watch`, until the watch or its session is closed."""

    async def take(self, timeout: float | None = None) -> list[FileChange]:
        """The changes that were not read yet. Waits for one; an empty list after so many seconds or when it is over."""
        import asyncio

        try:
            await asyncio.wait_for(self._inbox.wait_for_async(lambda: self._inbox.has_news), timeout)
        except asyncio.TimeoutError:
            pass
        return self._taken()

    async def close(self) -> None:
        """Ends the watch. Changes that came before can still be read."""
        if not self.is_over and self._core.is_open:
            try:
                await drive_async(self._core.connection, self._core.name, _end(self.name))
                await self._inbox.wait_for_async(lambda: self.is_over)
            except CellblockError:
                if not self.is_over:
                    raise

    async def __aiter__(self) -> AsyncIterator[FileChange]:
        while True:
            await self._inbox.wait_for_async(lambda: self._inbox.has_news)
            change = self._inbox.take()
            if change is None:
                return
            yield change

    async def __aenter__(self) -> AsyncWatch:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


WatchKind = TypeVar("WatchKind", Watch, AsyncWatch)


def start(kind: type[WatchKind], core: Core, path: str, recursive: bool) -> WatchKind:
    """Asks for a watch. The caller waits until `is_known`, and calls `started`."""
    inbox = _Inbox(path)
    fields: Line = {"session": core.name, "op": "watch", "path": path, "recursive": recursive}
    send(core.connection, fields, inbox.receive, last_event="fs_end")
    return kind(core, inbox, path)


def started(watch: WatchKind) -> WatchKind:
    """The watch, once it is known that it began. Raises what went wrong."""
    inbox = watch._inbox
    if inbox.answer is None:
        raise inbox.error or error_from("ended", "the session is not there any more")
    watch.name = inbox.answer["watch"]
    return watch


def _end(name: str) -> Plan[Any]:
    return (yield {"op": "unwatch", "watch": name})
