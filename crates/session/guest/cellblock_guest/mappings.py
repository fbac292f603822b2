"""Memory that is shared on purpose: in a fork it would be shared with the parent session, so the fork gets its own. And maps of
files that were removed and put back: a map leads to the file that was there when it was made."""

from __future__ import annotations

import ctypes
import os
from fcntl import ioctl
from struct import Struct

from . import BUILTINS as __builtins__
from . import places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_READ, _WRITE, _EXECUTE = 1, 2, 4
_SHARED, _FIXED, _ANONYMOUS = 0x01, 0x10, 0x20

# `struct procmap_query` of Linux 6.11: asking for the few that are shared is quicker than reading the list of all.
_QUERY = Struct("9Q4I2Q")
_ASK = 0xC0686611
_SHARED_FROM_HERE_ON = 0x8 | 0x10
_LONGEST_NAME = 4096

# What the kernel adds to the path of a file whose name was removed.
_REMOVED = " (deleted)"


class Mapping:
    """One shared mapping."""

    def __init__(self, start: int, end: int, protection: int, offset: int, inode: int, path: str) -> None:
        self._start, self._length = start, end - start
        self.protection = protection
        self.offset = offset
        self._inode = inode
        # In a fork: native code has put other memory in its place, with the same contents, which threads may have changed.
        self.is_apart = False
        # The same, and it is a map of the fork's own file.
        self.is_own_file = False
        self.path = _other_name(path, inode) if path.endswith(_REMOVED) and places.is_own(path) else path

    @property
    def place(self) -> tuple[int, int]:
        """Where it begins, and how long it is."""
        return self._start, self._length

    @property
    def own_path(self) -> str | None:
        """The path of a file that each session has its own of."""
        return self.path if places.is_own(self.path) and not self.path.endswith(_REMOVED) else None

    @property
    def is_written(self) -> bool:
        """Whether the code can change what it shares."""
        return bool(self.protection & _WRITE)

    @property
    def matters(self) -> bool:
        """A file of the system that is only read is the same for everyone."""
        return bool(self.protection & _WRITE) or places.is_own(self.path)

    def lead_to_path(self) -> None:
        """Map the file that has the path now, where it is another one than before."""
        try:
            is_another = places.is_own(self.path) and os.stat(self.path).st_ino != self._inode
        except OSError:  # nothing is there
            return
        if is_another:
            self.renew()

    def renew(self) -> None:
        """In the copy: put the session's own file, or a copy of the memory, in the place of the shared one."""
        if self.is_own_file:
            return
        if self.own_path is not None:
            try:
                descriptor = os.open(self.path, os.O_RDWR if self.protection & _WRITE else os.O_RDONLY)
            except OSError:
                pass
            else:
                present = max(0, min(self._length, os.fstat(descriptor).st_size - self.offset)) if self.is_apart else 0
                contents = ctypes.string_at(self._start, present)
                _map(self._start, self._length, self.protection, _SHARED | _FIXED, descriptor, self.offset)
                ctypes.memmove(self._start, contents, present)
                os.close(descriptor)
                return
        if self.is_apart:
            return
        contents = ctypes.string_at(self._start, self._length) if self.protection & _READ else b""
        _map(self._start, self._length, _READ | _WRITE, _SHARED | _ANONYMOUS | _FIXED, -1, 0)
        ctypes.memmove(self._start, contents, len(contents))


def shared(besides: Any = None) -> list[Mapping]:
    """The mappings that this process shares with others, but for that of one buffer."""
    try:
        found = list(_asked_for())
    except OSError:  # an older kernel
        found = list(_read())
    left_out = None if besides is None else ctypes.addressof(ctypes.c_char.from_buffer(besides))
    return [mapping for mapping in found if mapping.matters and mapping.place[0] != left_out]


def _asked_for() -> Iterator[Mapping]:
    maps = os.open("/proc/self/maps", os.O_RDONLY)
    try:
        name = ctypes.create_string_buffer(_LONGEST_NAME)
        answer = bytearray(_QUERY.size)
        address = 0
        while True:
            place = ctypes.addressof(name)
            question = (_QUERY.size, _SHARED_FROM_HERE_ON, address, 0, 0, 0, 0, 0, 0, 0, 0, _LONGEST_NAME, 0, place, 0)
            _QUERY.pack_into(answer, 0, *question)
            try:
                ioctl(maps, _ASK, answer, True)
            except FileNotFoundError:  # no more
                return
            _, _, _, start, end, flags, _, offset, inode, _, _, length, *_ = _QUERY.unpack(answer)
            path = os.fsdecode(name.value) if length else ""
            yield Mapping(start, end, flags & (_READ | _WRITE | _EXECUTE), offset, inode, path)
            address = end
    finally:
        os.close(maps)


def _read() -> Iterator[Mapping]:
    with open("/proc/self/maps") as file:
        for line in file:
            fields = line.split(None, 5)
            rights = fields[1]
            if rights[3] != "s":
                continue
            start, _, end = fields[0].partition("-")
            protection = _READ * ("r" in rights) | _WRITE * ("w" in rights) | _EXECUTE * ("x" in rights)
            path = fields[5].rstrip("\n") if len(fields) > 5 else ""
            yield Mapping(int(start, 16), int(end, 16), protection, int(fields[2], 16), int(fields[4]), path)


def _other_name(path: str, inode: int) -> str:
    """Another name of a file in the same directory; the old path if it has none. libc makes a semaphore under one name, and then
    gives it another."""
    directory = os.path.dirname(path)
    try:
        with os.scandir(directory) as entries:
            return next((entry.path for entry in entries if entry.inode() == inode), path)
    except OSError:
        return path


def _map(address: int, length: int, protection: int, flags: int, descriptor: int, offset: int) -> None:
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    if function(address, length, protection, flags, descriptor, offset) != address:
        raise OSError(ctypes.get_errno(), "shared memory cannot be mapped")
