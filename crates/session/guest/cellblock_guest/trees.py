"""A directory that something else will be mounted over, and the copying of what it holds."""

from __future__ import annotations

import os

from . import BUILTINS as __builtins__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 1 << 20


class Tree:
    """A directory that stays reachable."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def of(cls, path: str) -> Tree | None:
        """The directory at `path`, or None when there is nothing in it."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return None
        if os.listdir(descriptor):
            return cls(descriptor)
        os.close(descriptor)
        return None

    def copy_to(self, path: str) -> None:
        """Copy everything. What is no file, directory or link, or cannot be read, is left out."""
        target = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _copy(self._descriptor, target)
        finally:
            os.close(target)

    def close(self) -> None:
        os.close(self._descriptor)


def _copy(source: int, target: int) -> None:
    for entry in _entries(source):
        try:
            if entry.is_symlink():
                os.symlink(os.readlink(entry.name, dir_fd=source), entry.name, dir_fd=target)
            elif entry.is_dir(follow_symlinks=False):
                _copy_directory(entry.name, source, target)
            elif entry.is_file(follow_symlinks=False):
                _copy_file(entry.name, source, target)
        except OSError:
            pass


def _entries(descriptor: int) -> Iterator[os.DirEntry[str]]:
    # The descriptor that is listed is closed with the list; ours must stay.
    with os.scandir(descriptor) as entries:
        yield from list(entries)


def _copy_directory(name: str, source: int, target: int) -> None:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        os.mkdir(name, dir_fd=target)
    except FileExistsError:  # something of the system is shown there
        return
    here, there = os.open(name, flags, dir_fd=source), os.open(name, flags, dir_fd=target)
    try:
        _copy(here, there)
        _copy_attributes(here, there)
    finally:
        os.close(here)
        os.close(there)


def _copy_file(name: str, source: int, target: int) -> None:
    here = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=source)
    try:
        there = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=target)
        try:
            copy_contents(here, there)
            _copy_attributes(here, there)
        finally:
            os.close(there)
    finally:
        os.close(here)


def copy_contents(source: int, target: int) -> None:
    """Copy a file from its beginning, wherever either descriptor stands."""
    offset = 0
    while chunk := os.pread(source, _CHUNK, offset):
        while chunk:
            written = os.pwrite(target, chunk, offset)
            offset, chunk = offset + written, chunk[written:]


def _copy_attributes(source: int, target: int) -> None:
    status = os.fstat(source)
    os.fchmod(target, status.st_mode & 0o777)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
