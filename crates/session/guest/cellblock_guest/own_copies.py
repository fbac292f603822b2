"""What a fork has in common with its parent, listed before the head is copied: native code replaces it in the copy before any
thread of the fork runs, so that no thread writes into pipes, files and semaphores of the parent, or takes what is meant for it
(`forks/own_copies.rs`). Directories, and open files of `/tmp` and `/dev/shm`, are opened again later, by `descriptors`."""

from __future__ import annotations

import ctypes
import os

from . import BUILTINS as __builtins__
from . import descriptors, native, pairs, places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .descriptors import Descriptor, Open
    from .mappings import Mapping

_PIPE_END, _PAIR_END, _NOTHING, _FILE, _EXAMPLE, _OUTPUT = 0, 1, 2, 3, 4, 5
_CLOSED = -1
_NOT_REPLACED, _OWN_FILE = 0, 2
# Larger memory is replaced later: the fork would wait for the copy.
_MAX_AREA_BYTES = 64 << 20


class _Replacement(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_uint64),
        ("inode", ctypes.c_uint64),
        ("path", ctypes.c_char_p),
        ("offset", ctypes.c_int64),
        ("number", ctypes.c_int32),
        ("kind", ctypes.c_int32),
        ("group", ctypes.c_uint32),
        ("end", ctypes.c_uint32),
        ("socket_kind", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("is_inheritable", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
    ]


class _Area(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("start", "bytes", "protection", "is_replaced", "saved")),
        ("path", ctypes.c_char_p),
        ("offset", ctypes.c_size_t),
    ]


class OwnCopies:
    """The arrays that native code reads, which must live until the copy is made."""

    def __init__(self, opened: Open, mapped: Iterable[Mapping]) -> None:
        self._groups: dict[Any, int] = {}
        # The numbers of both ends, for each pair of sockets.
        self._pairs: dict[pairs.Pair, list[int | None]] = {}
        found = [_example(example) for example in opened.examples]
        found += [replacement for kept in opened if (replacement := self._replacement(kept)) is not None]
        self._replacements = (_Replacement * len(found))(*found)
        self._ends = (ctypes.c_int * (2 * len(self._groups)))(*[_CLOSED] * (2 * len(self._groups)))
        self._mappings = [
            mapping for mapping in mapped if mapping.own_path or (mapping.is_written and mapping.place[1] <= _MAX_AREA_BYTES)
        ]
        areas = [_area(mapping) for mapping in self._mappings]
        self._areas = (_Area * len(areas))(*areas)

    def remember(self) -> None:
        """Have native code replace all that in the copy that it makes next."""
        native.remember_own_copies(self._replacements, self._ends, self._areas)

    def settle(self) -> None:
        """In the copy: let the guest know what was replaced."""
        for mapping, area in zip(self._mappings, self._areas):
            mapping.is_apart = area.is_replaced != _NOT_REPLACED
            mapping.is_own_file = area.is_replaced == _OWN_FILE
        for pair, ends in self._pairs.items():
            try:
                pairs.renewed(pair, ends)
            except OSError:  # a thread has closed an end
                pass

    def _replacement(self, kept: Descriptor) -> _Replacement | None:
        made = _seen(kept)
        if kept.output is not None:
            made.kind, made.end = _OUTPUT, kept.output
        elif kept.is_pipe:
            writes = kept.flags & os.O_ACCMODE == os.O_WRONLY
            self._lead_to_end(made, _PIPE_END, kept.inode, int(writes), kept.flags)
        elif kept.is_socket and (pair := pairs.of(kept.inode)) is not None:
            end = pair.inodes.index(kept.inode)
            self._pairs.setdefault(pair, [None, None])[end] = kept.number
            self._lead_to_end(made, _PAIR_END, pair, end, kept.flags)
            made.socket_kind = pair.socket_kind
        elif kept.is_cut_off:
            made.kind = _NOTHING
        elif kept.is_regular and not kept.nameless and not kept.flags & os.O_PATH and not places.is_temporary(kept.path):
            is_own = places.is_own(kept.path)
            made.kind, made.offset = _FILE, kept.offset
            made.path = os.fsencode(kept.path if is_own else f"/proc/self/fd/{kept.number}")
            made.flags = kept.flags & ~descriptors.NOT_AGAIN
        else:
            return None
        return made

    def _lead_to_end(self, made: _Replacement, kind: int, group: Any, end: int, flags: int) -> None:
        made.kind, made.end, made.flags = kind, end, flags & os.O_NONBLOCK
        made.group = self._groups.setdefault((kind, group), len(self._groups))


def _area(mapping: Mapping) -> _Area:
    path = mapping.own_path
    where = {} if path is None else {"path": os.fsencode(path), "offset": mapping.offset}
    return _Area(*mapping.place, mapping.protection, **where)


def _seen(kept: Descriptor) -> _Replacement:
    device, inode = kept.file
    return _Replacement(device=device, inode=inode, number=kept.number, is_inheritable=kept.inheritable)


def _example(kept: Descriptor) -> _Replacement:
    """A descriptor of the guest's own: what init has put in its place, it has put in the place of others."""
    made = _seen(kept)
    made.kind = _EXAMPLE
    return made
