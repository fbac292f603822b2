"""Pairs of sockets that the code has made: an event loop wakes itself through one. The kernel does not tell which two sockets are
a pair."""

from __future__ import annotations

import _socket
import os

from . import BUILTINS as __builtins__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The oldest are forgotten: most of those have been closed.
_MAX_ENDS = 8192

_make = _socket.socketpair
_pairs: dict[int, Pair] = {}


class Pair:
    """Two sockets that are connected with each other, known by their inodes."""

    def __init__(self, inodes: tuple[int, int], family: int, socket_kind: int) -> None:
        self.inodes = inodes
        self._family, self.socket_kind = family, socket_kind

    @classmethod
    def of(cls, near: Any, far: Any) -> Pair:
        """The pair of these two sockets."""
        kind = near.type & ~(_socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)
        return cls((_inode(near), _inode(far)), near.family, int(kind))

    def in_place(self, inodes: tuple[int, int]) -> Pair:
        """The pair with these inodes, which has taken the place of this one."""
        return Pair(inodes, self._family, self.socket_kind)

    def again(self) -> tuple[int, int]:
        """The descriptors of a new pair of this kind."""
        near, far = _make(self._family, self.socket_kind)
        _remember(Pair.of(near, far))
        return near.detach(), far.detach()


def notice() -> None:
    """From now on, notice the pairs that are made."""

    def socketpair(*arguments: Any, **options: Any) -> Any:
        near, far = _make(*arguments, **options)
        _remember(Pair.of(near, far))
        return near, far

    socketpair.__doc__ = _make.__doc__
    _socket.socketpair = socketpair


def of(inode: int) -> Pair | None:
    """The pair that the socket with this inode belongs to, if it is known."""
    return _pairs.get(inode)


def renewed(pair: Pair, ends: list[int | None]) -> None:
    """In a fork: these descriptors are a pair that has taken the place of another one. An end may be closed."""
    near, far = (0 if end is None else os.fstat(end).st_ino for end in ends)
    _remember(pair.in_place((near, far)))


def _remember(pair: Pair) -> None:
    _pairs.update(dict.fromkeys(pair.inodes, pair))
    for oldest in list(_pairs)[: max(0, len(_pairs) - _MAX_ENDS)]:
        del _pairs[oldest]


def _inode(end: Any) -> int:
    return os.fstat(end.fileno()).st_ino
