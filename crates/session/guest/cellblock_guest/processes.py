"""Forking a process that the user's code does not see."""

from __future__ import annotations

import os
from _signal import SIGKILL  # type: ignore[import-not-found]

from . import BUILTINS as __builtins__
from . import native
from .libraries import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Pools of processes that libraries keep: the module, and its variable. `joblib.Parallel` uses the first.
_POOLS = (("joblib.externals.loky.reusable_executor", "_executor"), ("loky.reusable_executor", "_executor"))

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


def forget_pools() -> None:
    """In a copy: the child processes of the original are not the copy's. A library that keeps a pool of them for its next use
    starts a new one, if it does not find the old one."""
    for module, variable in _POOLS:
        if module in modules:
            try:
                setattr(modules[module], variable, None)
            except Exception:  # the code has put something else in its place
                pass


def renew_children(before: int) -> None:
    """In a copy that goes on in the place of the process `before`, when the child processes of `before` have ended:
    `multiprocessing` learns of it, and its pools start new workers."""
    if "multiprocessing.process" not in modules:
        return
    try:
        _end_children()
        _renew_finalizers(before)
    except Exception:  # the code has put something else in its place
        pass


def _end_children() -> None:
    for child in list(modules["multiprocessing.process"]._children):
        child._parent_pid = os.getpid()
        if child._popen is not None and child._popen.returncode is None:
            child._popen.returncode = -SIGKILL
    server: Any = modules.get("multiprocessing.forkserver")
    if server is not None:
        server._forkserver._forkserver_pid = server._forkserver._forkserver_address = None


def _renew_finalizers(before: int) -> None:
    """What `multiprocessing` does at the end of an object is done by the process that made the object, and by no other."""
    for finalizer in list(modules["multiprocessing.util"]._finalizer_registry.values()):
        if finalizer._pid != before:
            continue
        finalizer._pid = os.getpid()
        if getattr(finalizer._callback, "__name__", "") == "_terminate_pool":
            _, tasks, results, workers, *_ = finalizer._args
            # A worker that waits for a task holds the lock of the queue, and ended with it.
            for queue, name in (tasks, "_rlock"), (results, "_wlock"):
                lock = getattr(queue, name, None)
                if lock is not None and lock._semlock._is_zero():
                    lock.release()
            if len(workers) > 1:
                workers[0]._popen = _EndedLast(workers[0]._popen, workers)


class _EndedLast:
    """The process of a worker that has ended. Its pool learns of it when it has started others in the place of the rest: a pool
    divides the work by the number of its workers, and must not be seen without any."""

    def __init__(self, popen: Any, workers: list[Any]) -> None:
        self._popen = popen
        self._workers = workers
        self._rest = workers[1:]

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        if any(worker in self._workers for worker in self._rest) or len(self._workers) == 1:
            return None
        code: int | None = self._popen.poll(flag)
        return code

    def __getattr__(self, name: str) -> Any:
        return getattr(self._popen, name)


def forbid_changes() -> None:
    """From here on this process can change no file and no directory, by whatever function of the user's."""
    if _has_native():
        native.forbid_changes()


def _has_native() -> bool:
    # Without the library, as where this package is run alone, a plain fork has to do.
    return native._library is not None
