"""Memory that is shared on purpose: in a fork it would be shared with the parent session, so the fork gets its own."""

from __future__ import annotations

import ctypes
import os

from . import BUILTINS as __builtins__

_OWN = ("/workspace/", "/tmp/", "/dev/shm/")
_READ, _WRITE, _EXECUTE = 1, 2, 4
_SHARED, _FIXED, _ANONYMOUS = 0x01, 0x10, 0x20


class Mapping:
    """One shared mapping, as `/proc` lists it."""

    def __init__(self, line: str) -> None:
        fields = line.split(None, 5)
        start, _, end = fields[0].partition("-")
        self._start, self._length = int(start, 16), int(end, 16) - int(start, 16)
        self._offset = int(fields[2], 16)
        self._path = fields[5].rstrip("\n") if len(fields) > 5 else ""
        rights = fields[1]
        self._writable = "w" in rights
        self._protection = _READ * ("r" in rights) | _WRITE * ("w" in rights) | _EXECUTE * ("x" in rights)

    @property
    def matters(self) -> bool:
        """A file of the system that is only read is the same for everyone."""
        return self._writable or self._path.startswith(_OWN)

    def renew(self) -> None:
        """In the copy: put the session's own file, or a copy of the memory, in the place of the shared one."""
        if self._path.startswith(_OWN) and not self._path.endswith(" (deleted)"):
            try:
                descriptor = os.open(self._path, os.O_RDWR if self._writable else os.O_RDONLY)
            except OSError:
                pass
            else:
                _map(self._start, self._length, self._protection, _SHARED | _FIXED, descriptor, self._offset)
                os.close(descriptor)
                return
        contents = ctypes.string_at(self._start, self._length) if self._protection & _READ else b""
        _map(self._start, self._length, _READ | _WRITE, _SHARED | _ANONYMOUS | _FIXED, -1, 0)
        ctypes.memmove(self._start, contents, len(contents))


def shared() -> list[Mapping]:
    """The mappings that this process shares with others."""
    with open("/proc/self/maps") as file:
        found = [Mapping(line) for line in file if line.split(None, 2)[1][3] == "s"]
    return [mapping for mapping in found if mapping.matters]


def _map(address: int, length: int, protection: int, flags: int, descriptor: int, offset: int) -> None:
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    if function(address, length, protection, flags, descriptor, offset) != address:
        raise OSError(ctypes.get_errno(), "shared memory cannot be mapped")
