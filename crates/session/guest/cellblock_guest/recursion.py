"""The recursion limit without the frames of our own that lie below a cell: code recurses as deep as in a Python that a person
started."""

from __future__ import annotations

import sys
from sys import getrecursionlimit, setrecursionlimit

from . import BUILTINS as __builtins__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Up to Python 3.10 a call of a function written in C counts too: that of `eval`.
_CALLS_IN_C = 1 if sys.version_info < (3, 11) else 0
_MIN_LIMIT = 500  # what our own code needs, with room to spare
_own_frames = 0


def install() -> None:
    """Once: from here on code sees and sets the limit without our own frames."""
    sys.getrecursionlimit = _get
    sys.setrecursionlimit = _set


def exclude_own_frames() -> None:
    """Called by the function that runs a cell: what is below the cell does not count."""
    global _own_frames
    if _own_frames and _is_lowest(_own_frames - _CALLS_IN_C):
        return
    frame: Any = sys._getframe(1)
    count = _CALLS_IN_C
    while frame is not None:
        count += 1
        frame = frame.f_back
    if count != _own_frames:
        setrecursionlimit(max(1, getrecursionlimit() - _own_frames) + count)
        _own_frames = count


def _is_lowest(depth: int) -> bool:
    """Whether no frame is below the one at this depth, seen from the caller: as many frames as last time."""
    try:
        return sys._getframe(depth + 1).f_back is None
    except ValueError:  # there are fewer
        return False


def mend() -> None:
    """After a cell that left too little for our own code."""
    if getrecursionlimit() < _MIN_LIMIT:
        setrecursionlimit(_MIN_LIMIT)


def _get() -> int:
    return getrecursionlimit() - _own_frames


def _set(limit: int, /) -> None:
    # The call of this function is one frame more. What is no number, or none above 0, the real function says.
    setrecursionlimit(limit + _own_frames if type(limit) is int and limit > 0 else limit)


for _replacement, _original in ((_get, getrecursionlimit), (_set, setrecursionlimit)):
    _replacement.__name__ = _replacement.__qualname__ = _original.__name__
    _replacement.__doc__ = _original.__doc__
    _replacement.__module__ = "sys"
