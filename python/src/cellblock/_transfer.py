"""Plans for files of any size: they cross as open files, which the host of the session copies by itself.

Nothing is encoded, and only one descriptor is named in a request. It is a file in memory for bytes, and the file itself for
`upload` and `download`. Where the host cannot open a descriptor of this process, the plans say so, and the caller sends parts.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .errors import CellblockError

if TYPE_CHECKING:
    from ._plans import Plan

# Below this, parts in lines are as quick.
MIN_COPIED_BYTES = 1 << 20
# What the host answers when it cannot open a descriptor; an older one, or a server, does not know the operation.
_NOT_HERE = ("descriptor", "unknown_op", "unsupported")


def copy_in(path: str, contents: bytes | memoryview) -> Plan[bool]:
    """Bytes into a file of the session. False when this is not possible here."""
    descriptor = _file_in_memory()
    if descriptor is None:
        return False
    try:
        _write_all(descriptor, memoryview(contents))
        return (yield from copy_in_file(path, descriptor))
    except OSError:  # no room in memory for a second copy
        return False
    finally:
        os.close(descriptor)


def copy_in_file(path: str, descriptor: int) -> Plan[bool]:
    """An open file into a file of the session. False when this is not possible here."""
    return (yield from _copy("copy_in", path, descriptor)) is not None


def copy_out(path: str) -> Plan[bytes | None]:
    """A file of the session as bytes; `None` when this is not possible here."""
    descriptor = _file_in_memory()
    if descriptor is None:
        return None
    try:
        size = yield from _copy("copy_out", path, descriptor)
        return None if size is None else _read_all(descriptor, size)
    finally:
        os.close(descriptor)


def copy_out_file(path: str, descriptor: int) -> Plan[bool]:
    """A file of the session into an open file. False when this is not possible here."""
    return (yield from _copy("copy_out", path, descriptor)) is not None


def _copy(operation: str, path: str, descriptor: int) -> Plan[int | None]:
    try:
        answer = yield {"op": operation, "path": path, "process": os.getpid(), "descriptor": descriptor}
    except CellblockError as error:
        if error.code in _NOT_HERE:
            return None
        raise
    return int(answer["bytes"])


def _file_in_memory() -> int | None:
    try:
        return os.memfd_create("cellblock", os.MFD_CLOEXEC)
    except (AttributeError, OSError):  # another system, or no memory
        return None


def _write_all(descriptor: int, view: memoryview) -> None:
    view = view.cast("B")
    while view:
        view = view[os.write(descriptor, view) :]


def _read_all(descriptor: int, size: int) -> bytes:
    # One read gives at most 2 GiB.
    parts: list[bytes] = []
    offset = 0
    while offset < size and (part := os.pread(descriptor, size - offset, offset)):
        parts.append(part)
        offset += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
