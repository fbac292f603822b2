"""The child processes that libraries know of, in a copy of the process that started them: they are not the copy's, and have
ended or will have when the copy goes on.

`multiprocessing` refuses to ask for a process that another one started, and a thread of a pool that finds a worker ended starts
another. So in a copy its processes are the copy's at once, before any thread runs, and seem to run until files and descriptors
are what they shall be. Then the pools get new workers, and the processes have ended.

The workers are started here, not by the thread of the pool: the next checkpoint would find that thread in the middle of it, and
a copy of a pipe that the thread is about to close keeps the end of a worker from being noticed."""

from __future__ import annotations

import os
from _signal import SIGKILL  # type: ignore[import-not-found]

from . import BUILTINS as __builtins__
from .libraries import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Pools of processes that libraries keep: the module, and its variable. `joblib.Parallel` uses the first.
_KEPT_POOLS = (("joblib.externals.loky.reusable_executor", "_executor"), ("loky.reusable_executor", "_executor"))

# In a copy, until its files are as they were.
_children: list[Any] = []
_pools: list[Any] = []
_errors: list[Exception] = []


def take_over(before: int) -> None:
    """At once in a copy of the process `before`."""
    _forget_kept_pools()
    if "multiprocessing.process" not in modules:
        return
    try:
        _take_over_processes(before)
        _take_over_finalizers(before)
        _forget_fork_server()
    except Exception as error:  # the code has put something else in its place
        _errors.append(error)


def end() -> list[str]:
    """When the processes have ended, and files and descriptors of the copy are its own. Says what went wrong."""
    try:
        for finalizer in _pools:
            _renew_pool(finalizer)
    except Exception as error:
        _errors.append(error)
    for child in _children:
        if isinstance(child._popen, _Ending):  # else the code has closed it meanwhile
            child._popen = child._popen.ended()
    lost = [f"multiprocessing: what it knows of its processes and pools ({error!r:.200})" for error in _errors]
    for kept in _children, _pools, _errors:
        kept.clear()
    return lost


def _forget_kept_pools() -> None:
    """A library that keeps a pool for its next use starts a new one, if it does not find the old one."""
    for module, variable in _KEPT_POOLS:
        if module in modules:
            try:
                setattr(modules[module], variable, None)
            except Exception:  # the code has put something else in its place
                pass


def _take_over_processes(before: int) -> None:
    # All objects that stand for processes, also those that are known to have ended.
    for child in list(modules["multiprocessing.process"]._dangling):
        if child._parent_pid != before:
            continue
        child._parent_pid = os.getpid()
        if child._popen is not None and child._popen.returncode is None:
            child._popen = _Ending(child._popen)
            _children.append(child)


def _take_over_finalizers(before: int) -> None:
    """What `multiprocessing` does at the end of an object is done by the process that made the object, and by no other."""
    util: Any = modules.get("multiprocessing.util")
    for finalizer in list(util._finalizer_registry.values()) if util is not None else []:
        if finalizer._pid != before:
            continue
        finalizer._pid = os.getpid()
        if getattr(finalizer._callback, "__name__", "") == "_terminate_pool":
            _pools.append(finalizer)


def _forget_fork_server() -> None:
    server: Any = getattr(modules.get("multiprocessing.forkserver"), "_forkserver", None)
    if server is None or server._forkserver_pid is None:
        return
    alive = server._forkserver_alive_fd
    server._forkserver_pid = server._forkserver_address = server._forkserver_alive_fd = None
    if alive is not None:
        os.close(alive)


def _renew_pool(finalizer: Any) -> None:
    """Start new workers in the place of those that ended. They are there before the pool learns that the others have ended: it
    divides the work by the number of its workers, and must not be seen without any."""
    _, tasks, results, workers, *_ = finalizer._args
    # A worker that waits for a task holds the lock of the queue, and ended with it.
    for queue, name in (tasks, "_rlock"), (results, "_wlock"):
        lock = getattr(queue, name, None)
        if lock is not None and lock._semlock._is_zero():
            lock.release()
    pool = finalizer._weakref()
    if pool is None or not hasattr(pool, "_repopulate_pool"):
        return
    count = pool._processes
    pool._processes = count + len(workers)
    try:
        pool._repopulate_pool()
    finally:
        pool._processes = count


class _Ending:
    """The process of a child of the process before: it seems to run."""

    returncode = None

    def __init__(self, popen: Any) -> None:
        self._popen = popen

    def ended(self) -> Any:
        """What stands for the process from now on."""
        self._popen.returncode = -SIGKILL
        return self._popen

    def poll(self, *_: Any) -> None:
        return None

    wait = poll

    def __getattr__(self, name: str) -> Any:
        return getattr(self._popen, name)
