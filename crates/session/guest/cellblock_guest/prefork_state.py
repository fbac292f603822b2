"""What a frozen copy of the head shares with the head or loses, as it was at the checkpoint; and putting it right in the copy
that goes on.

The copy has the head's descriptors, but a descriptor leads to something that both have in common: a file's offset, a pipe, a
socket, what an epoll watches, locks. The cell that failed may have changed all of it."""

from __future__ import annotations

import ctypes
import gc
import os
from _signal import ITIMER_PROF, ITIMER_REAL, ITIMER_VIRTUAL, getitimer, setitimer  # type: ignore[import-not-found]
from _socket import MSG_DONTWAIT, MSG_PEEK, SOL_SOCKET, socket
from fcntl import F_GETFL, F_RDLCK, F_SETFL, F_UNLCK, F_WRLCK, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, fcntl, flock, ioctl, lockf
from select import POLLIN, poll
from struct import Struct
from sys import byteorder

from . import BUILTINS as __builtins__
from . import child_processes, epolls, mappings, native, pairs, places, process_id_keepers, timers
from .descriptors import COUNTER, Descriptor, same_again
from .unconnected_sockets import UnconnectedSockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_REGULAR = 0o100000
_DIRECTORY = 0o040000
_PIPE = 0o010000
_SOCKET = 0o140000
_FIONREAD = 0x541B
_DONT_WAIT = 2  # `SPLICE_F_NONBLOCK`
_PEEK_OFFSET = 42  # `SO_PEEK_OFF`: negative where the code does not use it
_MOST_COMPARED = 1 << 16
_TIMERS = (ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF)
_PROCESS = "anon_inode:[pidfd]"
_WATCHES = "anon_inode:inotify"
_OF_OPEN_FILE = "OFDLCK"
_COUNTS = "eventfd-count:"
_DATABASE = b"SQLite format 3\0"
# The flags of an open file that can be changed.
_CHANGEABLE = os.O_APPEND | os.O_ASYNC | os.O_DIRECT | os.O_NOATIME | os.O_NONBLOCK
# `fcntl.F_OFD_SETLK`, from Python 3.9 on; and `struct flock`.
_LOCK_OPEN_FILE = 37
_LOCK = Struct("hhqqi4x")
_FIRST_OF_THE_CODE = 3  # below it are the session's own streams

# Sockets that were open before any code of the session ran: without walls, those of the host's that it let through.
_inherited: set[tuple[int, int]] = set()


def begin(descriptors: list[tuple[int, int]]) -> None:
    """Note which sockets are not the code's. Once, in the process that will run the cells."""
    for number, kind in descriptors:
        if kind == _SOCKET:
            status = os.fstat(number)
            _inherited.add((status.st_dev, status.st_ino))


class PreForkState:
    """What is shared with the head or lost with it, at a checkpoint."""

    def __init__(self, descriptors: list[tuple[int, int]], besides: tuple[int, ...]) -> None:
        # Native code puts their offsets back, empties pipes that are empty now, and sets counters.
        self.files = [number for number, kind in descriptors if kind == _REGULAR or _is_read_from(number, kind)]
        try:
            self._directory: str | None = os.getcwd()
        except OSError:  # it was removed before
            self._directory = None
        self._streams = [(number, flags) for number in range(_FIRST_OF_THE_CODE) if (flags := _flags(number)) is not None]
        self._open = []
        for number, _ in descriptors:
            if number >= _FIRST_OF_THE_CODE and number not in besides:
                try:
                    self._open.append(_OpenDescriptor(number))
                except (OSError, ValueError):  # closed meanwhile, or no `/proc` behind these walls
                    pass
        self.files += [kept.number for kept in self._open if kept.path == COUNTER]
        self.sockets = UnconnectedSockets(descriptors, besides)
        # The kernel gives no timers to a copy.
        self._timers = [(timer, left) for timer in _TIMERS if (left := getitimer(timer))[0]]
        # The module `mmap` and SQLite keep a file open as long as it is mapped.
        try:
            self._mappings = mappings.shared() if any(kept.may_be_mapped for kept in self._open) else []
        except OSError:  # no `/proc` behind these walls
            self._mappings = []

    def settle(self, named: dict[str, int]) -> tuple[list[str], dict[str, int]]:
        """When the files of the workspace are as they were: what leads to them leads there again. Says what could not be put
        back, but for what was `named` when an earlier copy with this state went on; and what is named by now."""
        # The collector may find an object whose end closes a descriptor, between looking at the descriptor and replacing it.
        was_collecting = gc.isenabled()
        gc.disable()
        losses = _Losses(named)
        try:
            lost = self._settle(losses)
        finally:
            if was_collecting:
                gc.enable()
        # Last: new workers have the descriptors of this process.
        pools, problems = child_processes.end()
        lost += [reason for reason in pools if losses.is_new(reason)] + problems + _lost_memory()
        lost += [reason for descriptor, mark, reason in self.sockets.lost() if losses.is_new(descriptor, mark)]
        lost += process_id_keepers.lost(self._has_counters())
        for timer, (left, interval) in self._timers:
            setitimer(timer, left, interval)
        return lost, losses.named

    def _has_counters(self) -> bool:
        return any(kept.path == COUNTER for kept in self._open)

    def _settle(self, losses: _Losses) -> list[str]:
        lost = self._settle_directory()
        for mapping in self._mappings:
            mapping.lead_to_path()
        for number, flags in self._streams:
            _put_flags_back(number, flags)
        is_open = [kept for kept in self._open if kept.is_still_open()]
        for kept in is_open:
            reason = kept.settle()
            if reason and ((kept.has_path and not kept.is_not_copied) or losses.is_new(kept.number, kept.mark())):
                lost.append(reason)
        # Last: to close a file, as it happens above, ends all record locks that the process has on it.
        lost += [reason for kept in is_open if (reason := kept.lock_again())]
        return list(dict.fromkeys(lost))

    def _settle_directory(self) -> list[str]:
        if self._directory is None:
            return []
        try:
            if os.path.samefile(self._directory, "."):
                return []
        except OSError:
            pass
        try:
            os.chdir(self._directory)
        except OSError:
            os.chdir(places.workspace())
            return [f"{self._directory}: the working directory is gone; it is {places.workspace()} now"]
        return []


class _Losses:
    """What could not be put back. A copy that was woken leaves a copy of itself behind, with the same record
    of the checkpoint: what is told of the first must not be told again of the second."""

    def __init__(self, named: dict[str, int]) -> None:
        self._before = named
        self.named: dict[str, int] = {}

    def is_new(self, what: int | str, mark: int = 0) -> bool:
        """Whether it was not told yet that this is what is behind a descriptor, or that a pool is lost."""
        self.named[str(what)] = mark
        return self._before.get(str(what)) != mark


class _OpenDescriptor(Descriptor):
    """An open descriptor, and what is behind it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._state = self._look()
        self._locks = _locks(number) if self.kind == _REGULAR else []
        is_of_the_code = self.kind == _SOCKET and self.file not in _inherited
        self._socket_state = native.socket_state(number) if is_of_the_code else None

    @property
    def may_be_mapped(self) -> bool:
        """Whether it is a file that the session can replace by another one."""
        return self.kind == _REGULAR and places.is_own(self.path)

    @property
    def has_path(self) -> bool:
        """Whether it is a file or a directory that is found by its path."""
        return self.kind in (_REGULAR, _DIRECTORY) and not self.nameless

    @property
    def is_not_copied(self) -> bool:
        """Whether it is a file that no checkpoint has a copy of, unless it is noted as shared memory."""
        return self.kind == _REGULAR and (self.nameless or places.is_temporary(self.path))

    def mark(self) -> int:
        """The same as long as what is behind it is."""
        state = None if self._socket_state is None else native.socket_state(self.number)
        return hash((self.file, str(self._look()), state))

    def settle(self) -> str | None:
        """Put it right, or say what cannot be."""
        if self.has_path:
            try:
                if not _leads_to(self.path, self):
                    same_again(self)
                    if self._is_database():
                        return (
                            f"{self.path}: the database is another file now: close connections that were open, and connect again"
                        )
            except OSError as error:
                return f"{self.path}: it is open, and cannot be opened again: {error.strerror}"
        if self.is_not_copied and self._look() != self._state and not native.has_put_back(self.number):
            what = "file without a name" if self.nameless else "temporary file"
            return f"{self.name}: what was written to an open {what}"
        if self.has_path or self.output is not None:
            return self._flags_lost()
        is_stream = self.kind in (_PIPE, _SOCKET) or self.is_terminal or self.path == COUNTER
        if is_stream and self._look() != self._state:
            return f"{self.name}: what was read from it or written to it"
        if self.path == epolls.PATH:
            try:
                epolls.put_back(self.number, self.watched)
            except OSError:
                return f"{self.name}: what it watches"
        if self.path == timers.PATH:
            try:
                timers.put_back(self.number, self._state)
            except OSError:
                return f"{self.name}: what it is set to"
        if self.path == _PROCESS and self._look() != self._state:
            return f"{self.name}: its process has ended"
        if self.path == _WATCHES and self._look() != self._state:
            return f"{self.name}: what it watches"
        return self._socket_lost() or self._flags_lost()

    def _socket_lost(self) -> str | None:
        """Set the options of a socket as they were. Says what is not as it was."""
        if self._socket_state is None:
            return None
        lost = native.put_socket_back(self.number, self._socket_state)
        if lost == native.CONNECTION:
            return f"{self.name}: its connection was made, shut down or ended"
        return f"{self.name}: an option that was set" if lost == native.OPTION else None

    def _flags_lost(self) -> str | None:
        """Set the flags as they were, or say that they cannot be."""
        is_put_back = self.flags & os.O_PATH or _put_flags_back(self.number, self.flags)
        return None if is_put_back else f"{self.name}: flags that were set"

    def _is_database(self) -> bool:
        """Whether it is a database of SQLite, which takes the file for another database when it is another file."""
        can_be_read = self.kind == _REGULAR and self.flags & os.O_ACCMODE == os.O_RDWR
        return can_be_read and os.pread(self.number, len(_DATABASE), 0) == _DATABASE

    def _look(self) -> Any:
        """What tells whether the contents are still what they were."""
        if self.is_not_copied:
            status = os.fstat(self.number)
            return status.st_size, status.st_mtime_ns
        if self.kind == _PIPE:
            # Since Linux 6.14 an anonymous pipe has no times.
            status = os.fstat(self.number)
            waiting = _waiting(self.number)
            return waiting, status.st_mtime_ns, status.st_atime_ns, waiting and _contents_of_pipe(self.number)
        if self.path == COUNTER:
            return _count(self.number)
        if self.path == timers.PATH:
            return timers.setting(self.number)
        if self.path == _WATCHES:
            return _watches(self.number)
        if self.path == _PROCESS:
            return _has_ended(self.number)
        if self.kind == _SOCKET:
            waiting = _waiting(self.number)
            return waiting, waiting and _contents_of_socket(self.number)
        return _waiting(self.number) if self.is_terminal else None

    def lock_again(self) -> str | None:
        """Put the locks on a file right, or say that they cannot be."""
        try:
            now = _locks(self.number) if self.kind == _REGULAR else []
            if any(kind == "FLOCK" for kind, *_ in now) and not any(kind == "FLOCK" for kind, *_ in self._locks):
                flock(self.number, LOCK_UN)
            if _of_open_file(now) != _of_open_file(self._locks):
                _lock_open_file(self.number, F_UNLCK, 0, 0)
            for kind, mode, start, length in self._locks:
                how = (LOCK_EX if mode == "WRITE" else LOCK_SH) | LOCK_NB
                if kind == "FLOCK":
                    flock(self.number, how)
                elif kind == "POSIX":
                    lockf(self.number, how, length, start)
                elif kind == _OF_OPEN_FILE:
                    _lock_open_file(self.number, F_WRLCK if mode == "WRITE" else F_RDLCK, start, length)
        except FileNotFoundError:  # another thread has closed it
            return None
        except OSError:
            return f"{self.path}: a lock on it, which another process has now"
        return None


def _is_read_from(number: int, kind: int) -> bool:
    """Whether it is the end of a pipe that the code reads from."""
    try:
        return kind == _PIPE and number >= _FIRST_OF_THE_CODE and fcntl(number, F_GETFL) & os.O_ACCMODE != os.O_WRONLY
    except OSError:  # closed meanwhile
        return False


def _lost_memory() -> list[str]:
    """What native code could not put back before this process went on."""
    size, names = native.lost_memory()
    lost = [f"{size} bytes of shared memory: they cannot be written any more"] if size else []
    return lost + ([f"/dev/shm: {names} of its names are not as they were"] if names else [])


def _leads_to(path: str, kept: Descriptor) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        # Nothing is there: the file is the same, under another name, unless it has none any more.
        return os.fstat(kept.number).st_nlink > 0
    return (status.st_dev, status.st_ino) == kept.file


def _locks(number: int) -> list[tuple[str, str, int, int]]:
    """The locks on an open file: their kind, `READ` or `WRITE`, the first byte, and how many; 0 means up to the end."""
    found = []
    with open(f"/proc/self/fdinfo/{number}") as file:
        for line in file:
            if line.startswith("lock:"):
                _, _, kind, _, mode, _, _, start, end = line.split()
                found.append((kind, mode, int(start), 0 if end == "EOF" else int(end) - int(start) + 1))
    return found


def _of_open_file(locks: list[tuple[str, str, int, int]]) -> list[tuple[str, str, int, int]]:
    """Those that belong to the open file, not to the process: a copy of the process shares them."""
    return [lock for lock in locks if lock[0] == _OF_OPEN_FILE]


def _lock_open_file(number: int, how: int, start: int, length: int) -> None:
    fcntl(number, _LOCK_OPEN_FILE, _LOCK.pack(how, os.SEEK_SET, start, length, 0))


def locked(opened: Iterable[Descriptor]) -> list[str]:
    """The files that this process has locked."""
    found = []
    for kept in opened:
        try:
            if kept.kind == _REGULAR and _locks(kept.number):
                found.append(kept.path)
        except OSError:  # closed meanwhile, or no `/proc` behind these walls
            pass
    return list(dict.fromkeys(found))


def not_empty(opened: Iterable[Descriptor]) -> list[str]:
    """The pipes and pairs of sockets in which something waits to be read."""
    found = []
    for kept in opened:
        is_read = kept.flags & os.O_ACCMODE != os.O_WRONLY if kept.is_pipe else pairs.of(kept.inode) is not None
        if is_read and _waiting(kept.number):
            found.append(kept.name)
    return found


def has_timer() -> bool:
    """Whether a timer of the module `signal` runs."""
    return any(getitimer(timer)[0] for timer in _TIMERS)


def _flags(number: int) -> int | None:
    try:
        return fcntl(number, F_GETFL)
    except OSError:  # closed
        return None


def _put_flags_back(number: int, flags: int) -> bool:
    """Set the flags of an open file that can be changed. Says whether they are these."""
    now = _flags(number)
    try:
        if now is not None and (now ^ flags) & _CHANGEABLE:
            fcntl(number, F_SETFL, flags & _CHANGEABLE)
    except OSError:
        return False
    return True


def _watches(number: int) -> list[str]:
    with open(f"/proc/self/fdinfo/{number}") as file:
        return sorted(line for line in file if line.startswith("inotify "))


def _has_ended(number: int) -> bool:
    """Whether a process has ended, by its descriptor."""
    look = poll()
    look.register(number, POLLIN)
    return bool(look.poll(0))


def _count(number: int) -> str | None:
    with open(f"/proc/self/fdinfo/{number}") as file:
        return next((line for line in file if line.startswith(_COUNTS)), None)


def _waiting(number: int) -> int | None:
    """How many bytes wait to be read."""
    try:
        return int.from_bytes(ioctl(number, _FIONREAD, bytes(4)), byteorder)
    except OSError:
        return None


def _contents_of_pipe(number: int) -> int | None:
    """What tells the bytes that wait in a pipe from others, without reading them; None for the end that is written to."""
    try:
        reader, writer = os.pipe()
    except OSError:
        return None
    try:
        copied = ctypes.CDLL(None).tee(number, writer, _MOST_COMPARED, _DONT_WAIT)
        return hash(os.read(reader, copied)) if copied > 0 else None
    finally:
        os.close(reader)
        os.close(writer)


def _contents_of_socket(number: int) -> int | None:
    """The same for a socket."""
    try:
        handle = socket(fileno=os.dup(number))
    except OSError:
        return None
    try:
        # Where the code looks at what waits by itself, our look would change what it sees.
        if handle.getsockopt(SOL_SOCKET, _PEEK_OFFSET) >= 0:
            return None
        return hash(handle.recv(_MOST_COMPARED, MSG_PEEK | MSG_DONTWAIT))
    except OSError:
        return None
    finally:
        handle.close()
