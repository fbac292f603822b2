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

    def __init__(self, near: Any, far: Any) -> None:
        self.inodes = _inode(near), _inode(far)
        self._family, self._kind = near.family, near.type & ~(_socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)

    def again(self) -> tuple[int, int]:
        """The descriptors of a new pair of this kind."""
        near, far = _make(self._family, self._kind)
        _remember(near, far)
        return near.detach(), far.detach()


def notice() -> None:
    """From now on, notice the pairs that are made."""

    def socketpair(*arguments: Any, **options: Any) -> Any:
        near, far = _make(*arguments, **options)
        _remember(near, far)
        return near, far

    socketpair.__doc__ = _make.__doc__
    _socket.socketpair = socketpair


def of(inode: int) -> Pair | None:
    """The pair that the socket with this inode belongs to, if it is known."""
    return _pairs.get(inode)


def _remember(near: Any, far: Any) -> None:
    pair = Pair(near, far)
    _pairs.update(dict.fromkeys(pair.inodes, pair))
    for oldest in list(_pairs)[: max(0, len(_pairs) - _MAX_ENDS)]:
        del _pairs[oldest]


def _inode(end: Any) -> int:
    return os.fstat(end.fileno()).st_ino
