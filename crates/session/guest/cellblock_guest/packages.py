"""Packages that were added while the session lives: directories that come after all others on the path.

After all others, so that nothing in them can stand in the place of the standard library or of what was there before.
"""

from __future__ import annotations

import sys

from . import BUILTINS as __builtins__


def extend(paths: list[str]) -> None:
    """Make what is in these directories importable. The host says it again before each cell: a copy of the process that
    was made earlier does not know it. It must not fail, whatever code made of `sys.path`."""
    try:
        known = sys.path
        missing = [path for path in paths if path not in known]
        if missing:
            known.extend(missing)
            from importlib import invalidate_caches

            invalidate_caches()
    except Exception:
        pass
