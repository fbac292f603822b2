"""Ctrl-C: it stops a cell, and never the loop around the cells."""

from __future__ import annotations

from _signal import SIGINT, getsignal, signal  # type: ignore[import-not-found]

from . import BUILTINS as __builtins__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Interrupts:
    """Raises `KeyboardInterrupt` while it is allowed, which is while a cell runs. A signal that comes late is dropped."""

    def __init__(self) -> None:
        self.allowed = False
        self._handler = self._interrupt  # one object, to be recognized
        signal(SIGINT, self._handler)

    def begin_cell(self) -> None:
        """Take the signal back from a handler that an earlier cell left behind."""
        if getsignal(SIGINT) is not self._handler:
            signal(SIGINT, self._handler)

    def _interrupt(self, number: int, frame: Any) -> None:
        if self.allowed:
            raise KeyboardInterrupt
