"""Fewer mappings of memory: every fork copies each of them, and those with memory of the process's own cost the most."""

from __future__ import annotations

import ctypes
from itertools import pairwise

from . import BUILTINS as __builtins__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_READ, _WRITE, _EXECUTE = 1, 2, 4


class _Mapping:
    """A private mapping of a file."""

    __slots__ = ("access", "end", "is_changed", "offset", "path", "start")

    def __init__(self, addresses: str, access: str, offset: str, path: str) -> None:
        start, _, end = addresses.partition("-")
        self.start, self.end = int(start, 16), int(end, 16)
        self.access = access
        self.offset = int(offset, 16)
        self.path = path
        self.is_changed = False  # in this process, if that was asked for

    def goes_on_in(self, other: _Mapping) -> bool:
        """Whether the other mapping is of the same file, and begins where this one ends."""
        length = self.end - self.start
        return self.path == other.path and self.end == other.start and self.offset + length == other.offset


def join_mappings() -> None:
    """Join the mappings of the data of each library that is loaded. Called once, in the zygote.

    The linker makes a part of a library's data read-only when it has filled that part in (RELRO). Here it becomes writable again,
    and is one mapping with the rest of the data. The code of a session may call `mprotect` itself, so this takes no wall away.
    """
    try:
        mappings = [mapping for mapping in _mappings("/proc/self/smaps") if mapping.is_changed]
    except OSError:
        return
    for one, other in pairwise(mappings):
        if (one.access, other.access) == ("r--p", "rw-p") and one.goes_on_in(other):
            _protect(one, _READ | _WRITE)


def change_code(address: int, change: Callable[[], object]) -> None:
    """Make a change to functions of the library that has code at `address`. Its code stays one mapping."""
    try:
        code = next((mapping for mapping in _mappings("/proc/self/maps") if mapping.start <= address < mapping.end), None)
    except OSError:
        code = None
    if code is None or not _protect(code, _READ | _WRITE | _EXECUTE):
        change()
        return
    # The kernel joins mappings whose memory belongs together: of those that were one mapping when its first page was written.
    ctypes.memmove(address, ctypes.string_at(address, 1), 1)
    change()
    _protect(code, _READ | _EXECUTE)


def _protect(mapping: _Mapping, access: int) -> bool:
    function = ctypes.CDLL(None).mprotect
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return bool(function(mapping.start, mapping.end - mapping.start, access) == 0)


def _mappings(path: str) -> list[_Mapping]:
    """The mappings of files, with what the kernel says about them there."""
    found: list[_Mapping] = []
    is_of_file = False
    with open(path) as lines:
        for line in lines:
            fields = line.split(None, 5)
            if not fields[0].endswith(":"):
                is_of_file = fields[4] != "0"
                if is_of_file:
                    found.append(_Mapping(fields[0], fields[1], fields[2], fields[5]))
            elif fields[0] == "Anonymous:" and is_of_file:
                found[-1].is_changed = fields[1] != "0"
    return found
