"""Ctrl-C: it stops a cell, and never the loop around the cells."""

from __future__ import annotations

from _signal import SIGINT, SIGRTMIN, SIGURG, getsignal, signal  # type: ignore[import-not-found]
from faulthandler import register

from . import BUILTINS as __builtins__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


# The host sends it when the time of a cell is over. The handler is C code of Python: it runs while a C function does not return.
_PLACE_SIGNAL = SIGRTMIN + 6
_STDERR = 2


class Interrupts:
    """Raises `KeyboardInterrupt` while a cell runs. A signal that comes late is dropped; one that comes early is not."""

    def __init__(self, is_interrupted: Callable[[int], bool]) -> None:
        self.allowed = False
        self._is_interrupted = is_interrupted
        self._came_outside = False
        self._handler = self._interrupt  # one object, to be recognized
        signal(SIGINT, self._handler)
        signal(SIGURG, _nudge)
        register(_PLACE_SIGNAL, file=_STDERR, all_threads=False)

    def begin_cell(self) -> None:
        """Take the signal back from a handler that an earlier cell left behind."""
        if getsignal(SIGINT) is not self._handler:
            signal(SIGINT, self._handler)

    def allow(self, cell: int) -> None:
        """From here on the cell can be interrupted. A signal that came before may have been for it: the host says."""
        if cell < 0:  # a rehearsal: a signal that comes now is for the cell after it
            return
        self.allowed = True
        if self._came_outside:
            self._came_outside = False
            if self._is_interrupted(cell):
                raise KeyboardInterrupt

    def _interrupt(self, number: int, frame: Any) -> None:
        if self.allowed:
            raise KeyboardInterrupt
        self._came_outside = True


def _nudge(number: int, frame: Any) -> None:
    """Nothing. But the call that waited was interrupted, and Python sees that a signal had come before it."""
