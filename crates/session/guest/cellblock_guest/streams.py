"""`sys.stdout`, `sys.stderr` and `sys.stdin` of a session.

Both outputs are ordinary text streams over pipes to the host, line buffered. What is there of an incomplete line is held in
memory that the head shares with its standbys: when the head dies in the middle of a cell, the standby that is woken passes it on.
A head without a standby passes it on at once. The host reads two pipes, which have no common order. So a stream that was not the
last one written to first waits until the host has taken everything from the other."""

from __future__ import annotations

import sys
from _thread import _count, get_ident
from fcntl import ioctl
from io import BufferedIOBase, BufferedReader, RawIOBase, TextIOWrapper
from mmap import mmap
from os import sched_yield, write
from sys import _current_frames
from time import sleep

from . import BUILTINS as __builtins__
from . import cstdio

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_FIONREAD = 0x541B
_EMPTY = bytes(4)
_SPINS = 20
# How often the host is looked at before the order is given up: 0.2 s or more. Counted, since on a busy machine each look takes
# longer.
_LOOKS = 4000
_MOST_HELD = 4096  # bytes of an incomplete line, with its length
_LENGTH = 2
_NOTHING = bytes(_LENGTH)


class Streams:
    """The session's three streams, as user code finds them in `sys`."""

    def __init__(self, ask: Callable[[str], str], log: Callable[[str], None]) -> None:
        cstdio.pass_on_lines()
        self._held = _Held()
        self._order = _Order()
        self._ask = ask
        self._log = log
        self.stdout = self._output(1, "<stdout>")
        self.stderr = self._output(2, "<stderr>")
        self.stdin = self._input()
        sys.stdout = sys.__stdout__ = self.stdout  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = self.stderr  # type: ignore[misc]
        sys.stdin = sys.__stdin__ = self.stdin  # type: ignore[misc]

    def begin_cell(self) -> None:
        self._order.patient = True
        self._order.strangers = frozenset(_current_frames()) - {get_ident()} if _count() else frozenset()
        if not self._are_in_place():
            self._mend()

    def share(self) -> None:
        """In a process that has become a head: hold incomplete lines where its standbys find them."""
        self._held.share()

    @property
    def shared_memory(self) -> Any:
        """What this process shares with its copies."""
        return self._held.memory

    def hold_lines(self) -> None:
        """From now on a standby passes on what is held of an incomplete line, should this process die."""
        self._held.is_safe = True

    def keep_apart(self) -> None:
        """In a process that the code has forked: what it holds is not the head's."""
        self._held.keep_apart()

    def hand_over(self) -> None:
        """Pass on what our own streams hold, and wait until the host has it: what comes next comes after it."""
        self.flush()
        self._order.wait_for_host()

    def flush(self) -> None:
        """Pass on what our own streams hold. Runs no user code."""
        if self._held.is_empty() and not self._order.strangers:
            return  # almost always, at the end of a cell
        try:
            self.stdout.flush()
            self.stderr.flush()
        except (OSError, ValueError):
            self._mend()

    def end_cell(self) -> None:
        """Flush also what the user put in the place of our streams: a wrapper of their own may still hold text."""
        for stream, ours in ((getattr(sys, "stdout", None), self.stdout), (getattr(sys, "stderr", None), self.stderr)):
            if stream is not ours and stream is not None:
                try:
                    stream.flush()
                except Exception:
                    pass
        cstdio.flush()
        self.flush()

    def _are_in_place(self) -> bool:
        try:
            if sys.stdout is self.stdout and sys.stderr is self.stderr and sys.stdin is self.stdin:
                return not (self.stdout.closed or self.stderr.closed or self.stdin.closed)
        except (AttributeError, ValueError):  # deleted, or detached
            pass
        return False

    def _mend(self) -> None:
        """Replace streams that were closed or broken, so that no cell's output is lost without a word."""
        if not _is_open(self.stdout):
            self.stdout = self._output(1, "<stdout>")
            sys.__stdout__ = self.stdout  # type: ignore[misc]
        if not _is_open(self.stderr):
            self.stderr = self._output(2, "<stderr>")
            sys.__stderr__ = self.stderr  # type: ignore[misc]
        if not _is_open(self.stdin):
            self.stdin = self._input()
            sys.__stdin__ = self.stdin  # type: ignore[misc]
        for name in ("stdout", "stderr", "stdin"):
            ours = getattr(self, name)
            if getattr(sys, name, None) is not ours and not _is_open(getattr(sys, name, None)):
                setattr(sys, name, ours)

    def _output(self, fd: int, name: str) -> TextIOWrapper:
        stream = TextIOWrapper(
            _Pipe(fd, name, self._order, self._held, self._log),
            encoding="utf-8",
            errors="backslashreplace",
            newline="\n",
            line_buffering=True,
            write_through=True,
        )
        stream.mode = "w"  # type: ignore[misc]
        return stream

    def _input(self) -> TextIOWrapper:
        stream = TextIOWrapper(BufferedReader(_Questions(self._ask)), encoding="utf-8", errors="surrogateescape")
        stream.mode = "r"  # type: ignore[misc]
        return stream


class _Order:
    """Which pipe was written to last, and whether it is worth waiting for the host to empty it."""

    __slots__ = ("last", "patient", "strangers")

    def __init__(self) -> None:
        self.last = 1
        self.patient = True
        self.strangers: frozenset[int] = frozenset()  # threads that earlier cells left running

    def wait_for_host(self) -> None:
        """Until the host has taken all that was written."""
        self.turn_to(self.last)

    def turn_to(self, fd: int) -> None:
        other, self.last = self.last, fd
        if not self.patient:
            return
        for _ in range(_SPINS):
            if _is_empty(other):
                return
            sched_yield()
        for _ in range(_LOOKS):
            if _is_empty(other):
                return
            sleep(50e-6)
        self.patient = False  # until the next cell; order is worth one wait, not one for each line


class _Held:
    """What is there of an incomplete line of each output."""

    def __init__(self) -> None:
        self.memory: Any = bytearray(2 * _MOST_HELD)
        self.is_safe = False  # whether a standby has this memory too

    def share(self) -> None:
        self.memory = mmap(-1, 2 * _MOST_HELD)  # shared with the copies of this process
        self.is_safe = False

    def keep_apart(self) -> None:
        self.memory = bytearray(self.memory[:])
        self.is_safe = True  # as in any Python: what was not flushed dies with its process

    def add(self, fd: int, data: bytes) -> bool:
        """Hold this too. False when there is no room, or where it would be lost with this process."""
        if not self.is_safe:
            return False
        memory, start = self.memory, (fd - 1) * _MOST_HELD
        begin = _LENGTH + int.from_bytes(memory[start : start + _LENGTH], "little")
        end = begin + len(data)
        if end > _MOST_HELD:
            return False
        memory[start + begin : start + end] = data
        memory[start : start + _LENGTH] = (end - _LENGTH).to_bytes(_LENGTH, "little")
        return True

    def is_empty(self) -> bool:
        """Whether nothing is held of either output."""
        memory = self.memory
        return bool(memory[:_LENGTH] == _NOTHING == memory[_MOST_HELD : _MOST_HELD + _LENGTH])

    def take(self, fd: int) -> bytes:
        """What is held of an output; from now on nothing is."""
        memory, start = self.memory, (fd - 1) * _MOST_HELD
        size = int.from_bytes(memory[start : start + _LENGTH], "little")
        if not size:
            return b""
        data = bytes(memory[start + _LENGTH : start + _LENGTH + size])
        memory[start : start + _LENGTH] = bytes(_LENGTH)
        return data


class _Pipe(BufferedIOBase):
    """File descriptor 1 or 2 as `sys.stdout.buffer`. It holds back an incomplete line, and stays open whatever is closed above
    it."""

    def __init__(self, fd: int, name: str, order: _Order, held: _Held, log: Callable[[str], None]) -> None:
        self._fd = fd
        self._order = order
        self._held = held
        self._logged: dict[int, bytes] = {}  # incomplete lines of threads that earlier cells left running
        self._log = log
        self.name = name
        self.mode = "wb"

    @property
    def raw(self) -> Any:
        return self

    def write(self, data: Any) -> int:
        if self._order.strangers and get_ident() in self._order.strangers:
            self._log_line(bytes(data))
            return len(data)
        if type(data) is bytes and b"\n" not in data and self._held.add(self._fd, data):
            return len(data)
        before = self._held.take(self._fd)
        return self._pass_on(before + bytes(data) if before else data) - len(before)

    def flush(self) -> None:
        if self._order.strangers and get_ident() in self._order.strangers:
            if line := self._logged.pop(get_ident(), b""):
                self._log(line.decode("utf-8", "replace"))
        elif data := self._held.take(self._fd):
            self._pass_on(data)

    def _pass_on(self, data: Any) -> int:
        if self._order.last != self._fd:
            self._order.turn_to(self._fd)
        size = write(self._fd, data)
        if size != len(data):  # a signal came in the middle of a large write, or the items are larger than a byte
            view = memoryview(data).cast("B")
            while size < view.nbytes:
                size += write(self._fd, view[size:])
        return size

    def _log_line(self, data: bytes) -> None:
        line = self._logged.pop(get_ident(), b"") + data
        if b"\n" in line or len(line) > _MOST_HELD:
            self._log(line.decode("utf-8", "replace"))
        else:
            self._logged[get_ident()] = line

    def fileno(self) -> int:
        return self._fd

    def writable(self) -> bool:
        return True


class _Questions(RawIOBase):
    """Standard input: each read that finds nothing asks the host for a line; where no one answers, it is at its end."""

    def __init__(self, ask: Callable[[str], str]) -> None:
        self._ask = ask
        self._rest = b""
        self.name = "<stdin>"
        self.mode = "rb"

    def readinto(self, target: Any) -> int:
        if not self._rest:
            try:
                self._rest = (self._ask("") + "\n").encode("utf-8", "surrogateescape")
            except EOFError:
                return 0
        size = min(len(target), len(self._rest))
        target[:size], self._rest = self._rest[:size], self._rest[size:]
        return size

    def fileno(self) -> int:
        return 0

    def readable(self) -> bool:
        return True


def _is_empty(fd: int) -> bool:
    try:
        return ioctl(fd, _FIONREAD, _EMPTY) == _EMPTY
    except OSError:  # no pipe any more: the user closed it or put something else there
        return True


def _is_open(stream: Any) -> bool:
    try:
        return stream is not None and not stream.closed
    except Exception:  # detached, or an object of the user's that only has `write`
        return not isinstance(stream, TextIOWrapper)
