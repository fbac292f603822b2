"""Native threads before a fork: OpenMP's are put to rest, the rest are looked at.

A library that keeps a pool of threads hangs in a forked child, where its threads are missing. OpenMP can be told to let
its pool go; it makes a new one when it is needed. OpenBLAS, Arrow and jemalloc look after themselves.
"""

from __future__ import annotations

import os
from errno import EOVERFLOW, EPERM

from . import BUILTINS as __builtins__
from . import native
from .libraries import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_HARD = 2
_RUNTIMES = ("libgomp", "libomp", "libiomp")
_LOOK_AFTER_THEMSELVES = ("libopenblas", "libscipy_openblas", "libarrow", "libjemalloc", "libmkl")

_seen_modules = -1
_pauses: list[Callable[[int], int]] = []
_have_safe_threads = False


def pause_openmp() -> bool:
    """Let go of the threads of every OpenMP runtime that is loaded. True when this process has threads all the same."""
    if count_threads() == 1:
        return False
    _look_for_runtimes()
    for pause in _pauses:
        pause(_HARD)
    return count_threads() > 1


def foreign_thread() -> str | None:
    """The name of a native thread that no library is known to look after, or None."""
    if _have_safe_threads:
        return None
    own = str(os.getpid())
    for task in os.listdir("/proc/self/task"):
        if task != own:
            try:
                with open(f"/proc/self/task/{task}/comm") as file:
                    return file.read().strip()
            except OSError:
                pass
    return None


def count_threads() -> int:
    """How many threads this process has, Python's and others."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:  # no /proc behind these walls: then nothing is known of native threads
        return 1


def why_not_stopped(error: native.ThreadInTheWay) -> str:
    """What to tell a person about a thread that could not be stopped."""
    if not error.thread:
        return f"there are other threads, and they cannot be copied here: {error.strerror}"
    try:
        with open(f"/proc/self/task/{error.thread}/comm") as file:
            name = file.read().strip()
    except OSError:
        name = "ended meanwhile"
    why = {EPERM: "it blocks all signals", EOVERFLOW: "there are too many threads"}.get(error.errno or 0, "it does not stop")
    return f"a thread cannot be copied ({name}): {why}"


def _look_for_runtimes() -> None:
    global _seen_modules, _have_safe_threads
    # A library comes with a module; reading all maps costs a millisecond.
    if len(modules) == _seen_modules:
        return
    _seen_modules = len(modules)
    import ctypes

    with open("/proc/self/maps") as file:
        paths = {line.split(None, 5)[5].strip() for line in file if ".so" in line}
    names = {path: path.rsplit("/", 1)[-1] for path in paths}
    _have_safe_threads = any(name.startswith(_LOOK_AFTER_THEMSELVES) for name in names.values())
    _pauses.clear()
    for path, name in names.items():
        if name.startswith(_RUNTIMES):
            try:
                _pauses.append(ctypes.CDLL(path).omp_pause_resource_all)
            except (OSError, AttributeError):  # an old runtime that cannot be paused
                pass
