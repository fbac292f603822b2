"""The open descriptors of a fork: files are opened again, so that nothing in it leads to the parent's, and ends of pipes and
sockets whose other end the parent has are cut off.

Before any code runs in the fork, init has put something that leads nowhere in the place of sockets, directories and what only
stands for a path (`forks/ways_back.rs`)."""

from __future__ import annotations

import os
from fcntl import F_GETFL, fcntl

from . import BUILTINS as __builtins__
from . import epolls, pairs, places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_KIND = 0o170000
_REGULAR = 0o100000
_DIRECTORY = 0o040000
_PIPE = 0o010000
_SOCKET = 0o140000
_TERMINALS = ("/dev/pts/", "/dev/ptmx")
_DELETED = " (deleted)"
# Made anew before any thread of the fork runs: `forks/event_descriptors.rs`.
COUNTER = "anon_inode:[eventfd]"
_RENEWED_BY_NATIVE_CODE = (epolls.PATH, COUNTER, "anon_inode:[timerfd]", "anon_inode:[signalfd]")
# Flags that a file is opened with, but not again.
NOT_AGAIN = os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_TMPFILE
_MOST = 1024
_CHUNK = 1 << 20
_OUTPUTS = (1, 2)

# The pipes that the host reads what is printed from, and the number that each has.
_outputs: dict[tuple[int, int], int] = {}


def note_outputs() -> None:
    """In a process that begins to serve a session, before any code of it runs: which pipes lead to the host."""
    _outputs.clear()
    for number in _OUTPUTS:
        status = os.fstat(number)
        _outputs[status.st_dev, status.st_ino] = number


class Open:
    """What is open, as it was in the parent."""

    def __init__(self, descriptors: list[Descriptor], examples: list[Descriptor]) -> None:
        self._all = self._descriptors = descriptors
        # A socket and a directory of the guest's own: what init has made of them, it has made of others.
        self.examples = examples
        self._not_opened: list[str] = []

    @classmethod
    def look(cls, besides: tuple[int, ...]) -> Open:
        from _socket import AF_UNIX, socket

        examples = [Descriptor(socket(AF_UNIX).detach()), Descriptor(os.open("/", os.O_RDONLY | os.O_DIRECTORY))]
        left_out = {*besides, *(example.number for example in examples)}
        found = []
        for number in _numbers():
            if number not in left_out:
                try:
                    found.append(Descriptor(number))
                except OSError:  # the one that listed the directory
                    pass
        return cls(found, examples)

    def __iter__(self) -> Iterator[Descriptor]:
        return iter(self._descriptors)

    def renew(self) -> None:
        """In the copy: make every descriptor its own, but for those that watch others."""
        # A library may have closed some when Python told it of the fork, as matplotlib does with its fonts. Those stay closed.
        cut = {example.file_now() for example in self.examples if example.file_now() != example.file}
        self._descriptors = [descriptor for descriptor in self._descriptors if descriptor.is_still_open(cut)]
        fresh = _Fresh()
        for descriptor in self._descriptors:
            try:
                _renew(descriptor, fresh)
            except OSError as error:
                _replace(descriptor, nothing())
                self._not_opened.append(f"{descriptor.name}: it cannot be opened again: {error.strerror}")
        fresh.close()

    def close(self) -> None:
        for example in self.examples:
            os.close(example.number)

    def has_counters(self) -> bool:
        """Whether there are counters of events, by which libraries wake their threads."""
        return any(kept.path == COUNTER for kept in self._all)

    def lost(self) -> list[str]:
        """In the copy: what leads nowhere there."""
        cut = [kept for kept in self._all if kept.is_cut_off and pairs.of(kept.inode) is None]
        cut += self._pipes_with_one_end()
        return [f"{kept.name}: it leads nowhere in a fork" for kept in cut] + self._not_opened

    def _pipes_with_one_end(self) -> list[Descriptor]:
        """Pipes whose other end another process has."""
        ends: dict[int, set[bool]] = {}
        pipes = [kept for kept in self._all if kept.is_pipe and kept.output is None and kept.path.startswith("pipe:")]
        for kept in pipes:
            ends.setdefault(kept.inode, set()).add(kept.flags & os.O_ACCMODE == os.O_WRONLY)
        return [kept for kept in pipes if len(ends[kept.inode]) == 1]

    def renew_watches(self) -> None:
        """The rest: last, when the others are what they shall be."""
        for descriptor in self._descriptors:
            if descriptor.path == epolls.PATH:
                epolls.add_missing(descriptor.number, descriptor.watched)


class Descriptor:
    """One open descriptor."""

    def __init__(self, number: int) -> None:
        status = os.fstat(number)
        self.number = number
        self.kind = status.st_mode & _KIND
        self.file = status.st_dev, status.st_ino
        self.inode = status.st_ino
        self.was_cut_by_init = False
        self.path = os.readlink(f"/proc/self/fd/{number}")
        self.flags = fcntl(number, F_GETFL)
        self.inheritable = os.get_inheritable(number)
        self.nameless = status.st_nlink == 0
        self.offset = os.lseek(number, 0, os.SEEK_CUR) if self.kind == _REGULAR and not self.flags & os.O_PATH else 0
        self.watched = epolls.watched(number) if self.path == epolls.PATH else {}

    @property
    def name(self) -> str:
        """What a person is told of it."""
        what = {_PIPE: "a pipe", _SOCKET: "a socket"}.get(self.kind, "a terminal" if self.is_terminal else self.path)
        return f"{what} (descriptor {self.number})"

    @property
    def is_regular(self) -> bool:
        """Whether it is a plain file."""
        return self.kind == _REGULAR

    @property
    def is_pipe(self) -> bool:
        """Whether it is an end of a pipe."""
        return self.kind == _PIPE

    @property
    def output(self) -> int | None:
        """The number of the session's own output that it leads to, as a duplicate of it does that the code has made."""
        return _outputs.get(self.file) if self.is_pipe else None

    @property
    def is_socket(self) -> bool:
        """Whether it is a socket."""
        return self.kind == _SOCKET

    @property
    def is_cut_off(self) -> bool:
        """Whether a fork has nothing in its place."""
        is_other = self.path.startswith("anon_inode:") and self.path not in _RENEWED_BY_NATIVE_CODE
        return self.is_socket or self.is_terminal or is_other

    @property
    def is_terminal(self) -> bool:
        """Whether it is an end of a pseudo-terminal: each session has its own."""
        return self.path.startswith(_TERMINALS)

    def file_now(self) -> tuple[int, int] | None:
        """The device and the inode of what the number leads to; None if it was closed."""
        try:
            status = os.fstat(self.number)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def is_still_open(self, cut: Collection[tuple[int, int] | None] = ()) -> bool:
        """Whether the number leads to the same file as when it was looked at, or to what init has put in the place of others."""
        now = self.file_now()
        self.was_cut_by_init = now is not None and now in cut
        return now == self.file or self.was_cut_by_init


def _numbers() -> Iterator[int]:
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:  # no /proc behind these walls
        yield from range(_MOST)
        return
    yield from map(int, names)


class _Fresh:
    """The pipes and pairs of sockets that were made for this process. Both ends of one pipe are one pipe here too, but an empty
    one."""

    def __init__(self) -> None:
        self._pipes: dict[int, tuple[int, int]] = {}
        self._sockets: dict[int, int] = {}

    def pipe(self, inode: int) -> tuple[int, int]:
        ends = self._pipes.get(inode)
        if ends is None:
            ends = self._pipes[inode] = os.pipe()
        return ends

    def socket(self, inode: int) -> int | None:
        """An end of a pair whose other end is in this process too; None for any other socket."""
        if inode not in self._sockets and (pair := pairs.of(inode)) is not None:
            self._sockets.update(zip(pair.inodes, pair.again()))
        return self._sockets.get(inode)

    def close(self) -> None:
        for reader, writer in self._pipes.values():
            os.close(reader)
            os.close(writer)
        for end in self._sockets.values():
            os.close(end)


def _renew(descriptor: Descriptor, fresh: _Fresh) -> None:
    if descriptor.kind in (_REGULAR, _DIRECTORY) or descriptor.flags & os.O_PATH:
        again = _again(descriptor)
        if descriptor.kind == _REGULAR and not descriptor.flags & os.O_PATH:
            os.lseek(again, descriptor.offset, os.SEEK_SET)
        _replace(descriptor, again)
    elif descriptor.kind == _PIPE:
        reader, writer = fresh.pipe(descriptor.inode)
        writes = descriptor.flags & os.O_ACCMODE == os.O_WRONLY
        _replace_by_end(descriptor, writer if writes else reader)
    elif descriptor.kind == _SOCKET and (end := fresh.socket(descriptor.inode)) is not None:
        _replace_by_end(descriptor, end)
    elif descriptor.was_cut_by_init or descriptor.is_cut_off:
        _replace(descriptor, nothing())


def _replace_by_end(descriptor: Descriptor, end: int) -> None:
    end = os.dup(end)
    os.set_blocking(end, not descriptor.flags & os.O_NONBLOCK)
    _replace(descriptor, end)


def same_again(descriptor: Descriptor) -> None:
    """Open a file anew under its path, in the place of the descriptor that led to it."""
    fresh = os.open(descriptor.path, descriptor.flags & ~NOT_AGAIN)
    if descriptor.kind == _REGULAR and not descriptor.flags & os.O_PATH:
        os.lseek(fresh, descriptor.offset, os.SEEK_SET)
    _replace(descriptor, fresh)


def _again(descriptor: Descriptor) -> int:
    """The same file, opened once more: the one of this session, if it is one of those that each session has."""
    flags = descriptor.flags & ~NOT_AGAIN | (os.O_DIRECTORY if descriptor.kind == _DIRECTORY else 0)
    if descriptor.was_cut_by_init or (places.is_own(descriptor.path) and not descriptor.nameless):
        return os.open(descriptor.path, flags)
    if descriptor.nameless and descriptor.kind == _REGULAR:
        return _copy_of_nameless(descriptor, flags)
    return os.open(f"/proc/self/fd/{descriptor.number}", flags)


def _copy_of_nameless(descriptor: Descriptor, flags: int) -> int:
    """A file without a name is found by nobody else; its contents are copied into another one."""
    folder = os.path.dirname(descriptor.path.removesuffix(_DELETED))
    if not places.is_own(folder) or not os.path.isdir(folder):
        folder = "/tmp"
    path = f"{folder}/.cellblock-fork-{os.getpid()}-{descriptor.number}"
    source = os.open(f"/proc/self/fd/{descriptor.number}", os.O_RDONLY)
    try:
        target = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _copy_contents(source, target)
            return os.open(path, flags)
        finally:
            os.close(target)
            os.unlink(path)
    finally:
        os.close(source)


def _copy_contents(source: int, target: int) -> None:
    """Copy a file from its beginning, wherever either descriptor stands."""
    offset = 0
    while chunk := os.pread(source, _CHUNK, offset):
        while chunk:
            written = os.pwrite(target, chunk, offset)
            offset, chunk = offset + written, chunk[written:]


def nothing() -> int:
    """A socket whose other end is closed: reading finds the end, writing fails."""
    from _socket import AF_UNIX, SOCK_STREAM, socketpair

    near, far = socketpair(AF_UNIX, SOCK_STREAM)
    far.close()
    return near.detach()


def _replace(descriptor: Descriptor, fresh: int) -> None:
    os.dup2(fresh, descriptor.number, descriptor.inheritable)
    os.close(fresh)
