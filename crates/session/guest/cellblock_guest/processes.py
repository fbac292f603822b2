"""Forking a process that the user's code does not see."""

from __future__ import annotations

import os
from _signal import SIGKILL  # type: ignore[import-not-found]

from . import BUILTINS as __builtins__
from . import native

_kill = os.kill


def side_fork() -> int:
    """Like `os.fork`, but the new process is no child of ours: `os.wait()` never sees it, and no SIGCHLD comes."""
    return native.side_fork() if _has_native() else os.fork()


def kill(pid: int) -> None:
    """End a process made by `side_fork` that is known to be running."""
    try:
        _kill(pid, SIGKILL)
    except OSError:
        pass


def finish(pid: int) -> None:
    """Nothing is left of the process after this, also where it had to be a child of ours."""
    if not _has_native():
        try:
            os.waitpid(pid, 0)
        except OSError:
            pass


def forbid_changes() -> None:
    """From here on this process can change no file and no directory, by whatever function of the user's."""
    if _has_native():
        native.forbid_changes()


def _has_native() -> bool:
    # Without the library, as where this package is run alone, a plain fork has to do.
    return native._library is not None
