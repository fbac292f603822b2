"""What code expects to find around it in a Python that a person started, and that ours lacks."""

from __future__ import annotations

import builtins
import sys

from . import BUILTINS as __builtins__


def arrange() -> None:
    """Once, at the birth of a session."""
    sys.argv = [""]
    sys.path.insert(0, "")  # modules in the working directory, wherever that is at the time
    _add_site_builtins()


def _add_site_builtins() -> None:
    """`exit`, `quit` and `help`: they come from `site`, which is left out where there are no packages."""
    import _sitebuiltins

    for name in ("exit", "quit"):
        if not hasattr(builtins, name):
            setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D"))
    if not hasattr(builtins, "help"):
        builtins.help = _sitebuiltins._Helper()
