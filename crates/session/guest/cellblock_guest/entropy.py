"""Fresh random numbers for a new session: all are forked from one process, and would draw the same."""

from __future__ import annotations

from . import BUILTINS as __builtins__
from .libraries import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def refresh() -> None:
    """Seed the global generators anew from the system, where their libraries are loaded."""
    for name in ("random", "numpy.random", "torch"):
        library: Any = modules.get(name)
        if library is not None:
            library.seed()
