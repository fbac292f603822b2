"""Forking a process that the user's code does not see."""

from __future__ import annotations

import os
from _signal import SIGKILL

from . import BUILTINS as __builtins__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

native: Any
try:
    from . import native  # type: ignore[no-redef]
except ImportError:  # without the native library, as in tests of this package alone
    native = None


def side_fork() -> int:
    """Like `os.fork`, but the new process is no child of ours: `os.wait()` never sees it, and no SIGCHLD comes."""
    pid: int = native.side_fork() if native is not None else os.fork()
    return pid


def end(pid: int) -> None:
    """Kill a process made by `side_fork`, if it still lives."""
    try:
        if native is not None:
            native.kill(pid)
        else:
            os.kill(pid, SIGKILL)
            os.waitpid(pid, 0)
    except OSError:
        pass
