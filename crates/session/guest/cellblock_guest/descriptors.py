"""The open descriptors of a fork: files are opened again, so that nothing in it leads to the parent's, and ends of pipes and sockets
whose other end the parent has are cut off."""

from __future__ import annotations

import os
from fcntl import F_GETFL, fcntl

from . import BUILTINS as __builtins__
from . import trees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_KIND = 0o170000
_REGULAR = 0o100000
_DIRECTORY = 0o040000
_PIPE = 0o010000
_SOCKET = 0o140000
_OWN = ("/workspace", "/tmp", "/dev/shm")
_DELETED = " (deleted)"
_NOT_AGAIN = os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_TMPFILE
_MOST = 1024


class Open:
    """What is open, as it was in the parent."""

    def __init__(self, descriptors: list[Descriptor]) -> None:
        self._descriptors = descriptors

    @classmethod
    def look(cls, besides: tuple[int, ...]) -> Open:
        found = []
        for number in _numbers():
            if number not in besides:
                try:
                    found.append(Descriptor(number))
                except OSError:  # the one that listed the directory
                    pass
        return cls(found)

    def renew(self) -> None:
        """In the copy: make every descriptor its own, but for those that watch others."""
        # A library may have closed some when Python told it of the fork, as matplotlib does with its fonts. Those stay closed.
        self._descriptors = [descriptor for descriptor in self._descriptors if descriptor.is_still_open()]
        pipes: dict[int, tuple[int, int]] = {}
        for descriptor in self._descriptors:
            try:
                _renew(descriptor, pipes)
            except OSError:
                _replace(descriptor, nothing())
        for reader, writer in pipes.values():
            os.close(reader)
            os.close(writer)

    def renew_watches(self) -> None:
        """The rest: last, when the others are what they shall be."""
        for descriptor in self._descriptors:
            if descriptor.path == "anon_inode:[eventpoll]":
                _replace(descriptor, _same_watch(descriptor.watched))


class Descriptor:
    """One open descriptor."""

    def __init__(self, number: int) -> None:
        status = os.fstat(number)
        self.number = number
        self.kind = status.st_mode & _KIND
        self.device = status.st_dev
        self.inode = status.st_ino
        self.path = os.readlink(f"/proc/self/fd/{number}")
        self.flags = fcntl(number, F_GETFL)
        self.inheritable = os.get_inheritable(number)
        self.nameless = status.st_nlink == 0
        self.offset = os.lseek(number, 0, os.SEEK_CUR) if self.kind == _REGULAR and not self.flags & os.O_PATH else 0
        self.watched = watched(number) if self.path == "anon_inode:[eventpoll]" else []

    def is_still_open(self) -> bool:
        """Whether the number leads to the same file as it did when it was looked at."""
        try:
            status = os.fstat(self.number)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == (self.device, self.inode)


def _numbers() -> Iterator[int]:
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:  # no /proc behind these walls
        yield from range(_MOST)
        return
    yield from map(int, names)


def _renew(descriptor: Descriptor, pipes: dict[int, tuple[int, int]]) -> None:
    if descriptor.kind in (_REGULAR, _DIRECTORY):
        fresh = _again(descriptor)
        if descriptor.kind == _REGULAR and not descriptor.flags & os.O_PATH:
            os.lseek(fresh, descriptor.offset, os.SEEK_SET)
        _replace(descriptor, fresh)
    elif descriptor.kind == _PIPE:
        # Both ends of one pipe are one pipe here too, but an empty one.
        ends = pipes.get(descriptor.inode)
        if ends is None:
            ends = pipes[descriptor.inode] = os.pipe()
        writes = descriptor.flags & os.O_ACCMODE == os.O_WRONLY
        end = os.dup(ends[1] if writes else ends[0])
        os.set_blocking(end, not descriptor.flags & os.O_NONBLOCK)
        _replace(descriptor, end)
    elif descriptor.kind == _SOCKET or descriptor.path.startswith("anon_inode:"):
        _replace(descriptor, nothing())


def same_again(descriptor: Descriptor) -> None:
    """Open a file anew under its path, in the place of the descriptor that led to it."""
    fresh = os.open(descriptor.path, descriptor.flags & ~_NOT_AGAIN)
    if descriptor.kind == _REGULAR and not descriptor.flags & os.O_PATH:
        os.lseek(fresh, descriptor.offset, os.SEEK_SET)
    _replace(descriptor, fresh)


def _again(descriptor: Descriptor) -> int:
    """The same file, opened once more: the one of this session, if it is one of those that each session has."""
    flags = descriptor.flags & ~_NOT_AGAIN | (os.O_DIRECTORY if descriptor.kind == _DIRECTORY else 0)
    own = descriptor.path.startswith(_OWN) and (descriptor.path + "/").startswith(tuple(f"{path}/" for path in _OWN))
    if own and not descriptor.nameless:
        return os.open(descriptor.path, flags)
    if descriptor.nameless and descriptor.kind == _REGULAR:
        return _copy_of_nameless(descriptor, flags)
    return os.open(f"/proc/self/fd/{descriptor.number}", flags)


def _copy_of_nameless(descriptor: Descriptor, flags: int) -> int:
    """A file without a name is found by nobody else; its contents are copied into another one."""
    folder = os.path.dirname(descriptor.path.removesuffix(_DELETED))
    if not folder.startswith(_OWN) or not os.path.isdir(folder):
        folder = "/tmp"
    path = f"{folder}/.cellblock-fork-{os.getpid()}-{descriptor.number}"
    source = os.open(f"/proc/self/fd/{descriptor.number}", os.O_RDONLY)
    try:
        target = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            trees.copy_contents(source, target)
            return os.open(path, flags)
        finally:
            os.close(target)
            os.unlink(path)
    finally:
        os.close(source)


def nothing() -> int:
    """A socket whose other end is closed: reading finds the end, writing fails."""
    from _socket import AF_UNIX, SOCK_STREAM, socketpair  # type: ignore[import-not-found]

    near, far = socketpair(AF_UNIX, SOCK_STREAM)
    far.close()
    return near.detach()


def watched(number: int) -> list[tuple[int, int]]:
    """What an epoll watches: descriptors, with the events."""
    found = []
    with open(f"/proc/self/fdinfo/{number}") as file:
        for line in file:
            words = line.split()
            if words and words[0] == "tfd:":
                found.append((int(words[1]), int(words[3], 16)))
    return found


def _same_watch(watched: list[tuple[int, int]]) -> int:
    from select import epoll

    fresh = epoll()
    for number, events in watched:
        try:
            fresh.register(number, events)
        except OSError:
            pass
    descriptor = os.dup(fresh.fileno())
    fresh.close()
    return descriptor


def _replace(descriptor: Descriptor, fresh: int) -> None:
    os.dup2(fresh, descriptor.number, descriptor.inheritable)
    os.close(fresh)
