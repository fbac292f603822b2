"""What code expects to find around it in a Python that a person started, and that ours lacks."""

from __future__ import annotations

import builtins
import os
import sys

from . import BUILTINS as __builtins__
from . import recursion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


def arrange(flush: Callable[[], None]) -> None:
    """Once, at the birth of a session."""
    sys.argv = [""]
    sys.path.insert(0, "")  # modules in the working directory, wherever that is at the time
    _add_site_builtins()
    recursion.install()
    _flush_before_exit(flush)


def _flush_before_exit(flush: Callable[[], None]) -> None:
    """`os._exit` throws away what is in the streams; a line that was begun shall be seen all the same."""
    end = os._exit

    def _exit(status: int) -> NoReturn:
        flush()
        end(status)

    _exit.__doc__ = end.__doc__
    os._exit = _exit


def _add_site_builtins() -> None:
    """`exit`, `quit` and `help`: they come from `site`, which is left out where there are no packages."""
    import _sitebuiltins

    for name in ("exit", "quit"):
        if not hasattr(builtins, name):
            setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D"))
    if not hasattr(builtins, "help"):
        builtins.help = _sitebuiltins._Helper()
