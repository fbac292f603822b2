"""Fewer mappings of memory: every fork copies each of them, and those with memory of the process's own cost the most."""

from __future__ import annotations

import ctypes
from itertools import pairwise

from . import BUILTINS as __builtins__

_READ, _WRITE, _EXECUTE = 1, 2, 4


class _Mapping:
    """A private mapping of a file."""

    __slots__ = ("access", "end", "offset", "path", "start")

    def __init__(self, addresses: str, access: str, offset: str, path: str) -> None:
        start, _, end = addresses.partition("-")
        self.start, self.end = int(start, 16), int(end, 16)
        self.access = access
        self.offset = int(offset, 16)
        self.path = path

    def goes_on_in(self, other: _Mapping) -> bool:
        """Whether the other mapping is of the same file, and begins where this one ends."""
        length = self.end - self.start
        return self.path == other.path and self.end == other.start and self.offset + length == other.offset


def join_mappings() -> None:
    """Join the mappings of each library that is loaded which differ in access alone. Called once, in the zygote.

    The linker makes a part of a library's data read-only when it has filled that part in (RELRO). Here it becomes writable again,
    and is one mapping with the rest of the data. The code of a session may call `mprotect` itself, so this takes no wall away.
    In libc, each function that the native library has changed is a mapping of its own.
    """
    try:
        mappings = _own_mappings()
    except OSError:
        return
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for one, other in pairwise(mappings):
        if (one.access, other.access) == ("r--p", "rw-p") and one.goes_on_in(other):
            protect(one.start, one.end - one.start, _READ | _WRITE)
    for start, end in _runs_of_code(mappings):
        # The kernel joins mappings that were made writable with each other, not with those that never were.
        if protect(start, end - start, _READ | _WRITE | _EXECUTE) == 0:
            protect(start, end - start, _READ | _EXECUTE)


def _runs_of_code(mappings: list[_Mapping]) -> list[tuple[int, int]]:
    """Where the code of one file is in several mappings."""
    runs: list[tuple[int, int]] = []
    before: _Mapping | None = None
    for mapping in mappings:
        if mapping.access == "r-xp":
            if before is not None and before.goes_on_in(mapping):
                start, _ = runs.pop() if runs and runs[-1][1] == mapping.start else (before.start, before.end)
                runs.append((start, mapping.end))
            before = mapping
        else:
            before = None
    return runs


def _own_mappings() -> list[_Mapping]:
    """The mappings of code, and those that this process has written to."""
    found = []
    mapping: _Mapping | None = None
    with open("/proc/self/smaps") as lines:
        for line in lines:
            fields = line.split(None, 5)
            if not fields[0].endswith(":"):
                mapping = _Mapping(fields[0], fields[1], fields[2], fields[5]) if fields[4] != "0" else None
                if mapping is not None and mapping.access == "r-xp":
                    found.append(mapping)
            elif fields[0] == "Anonymous:" and fields[1] != "0" and mapping is not None and mapping.access != "r-xp":
                found.append(mapping)
    return found
