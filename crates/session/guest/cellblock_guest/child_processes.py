"""The child processes that libraries know of, in a copy of the process that started them: they are not the copy's, and have
ended or will have when the copy goes on.

`multiprocessing` refuses to ask for a process that another one started, and a thread of a pool that finds a worker ended starts
another. So in a copy its processes seem to run until files and descriptors are what they shall be; threads may run before any
code of ours, so this is prepared before the process is copied. Then the pools get new workers, and the processes have ended.

The workers are started here, not by the thread of the pool: the next checkpoint would find that thread in the middle of it, and
a copy of a pipe that the thread is about to close keeps the end of a worker from being noticed."""

from __future__ import annotations

import gc
import os
from _signal import SIGKILL  # type: ignore[import-not-found]

from . import BUILTINS as __builtins__
from .libraries import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Bound here: code may replace what `os` consists of.
_getpid = os.getpid

# Pools of processes that libraries keep: the module, and its variable. `joblib.Parallel` uses the first.
_KEPT_POOLS = (("joblib.externals.loky.reusable_executor", "_executor"), ("loky.reusable_executor", "_executor"))

# In a copy, until its files are as they were.
_children: list[Any] = []
_pools: list[Any] = []
_executors: list[Any] = []
_lost_pools: list[str] = []
_tracked: list[tuple[str, str]] = []
_errors: list[Exception] = []


def guard() -> None:
    """Before the process is copied: what stands for its children must know in which process it is."""
    try:
        for child in list(modules["multiprocessing.process"]._dangling):
            popen = child._popen
            if popen is not None and popen.returncode is None and not isinstance(popen, _Guarded):
                child._popen = _Guarded(popen)
    except Exception:  # not imported, or the code has put something else in its place; the copy says so
        pass


def renewed() -> set[Any]:
    """The ids of child processes that a copy of this process starts again when it needs them, with all that they knew."""
    return {getattr(_resource_tracker(), "_pid", None)}


class Pools:
    """The pools of processes, before the process is copied: in the copy, their threads may find the workers ended before anything
    else happens."""

    def __init__(self) -> None:
        executors = _executors_of("concurrent.futures.process")
        # They have workers and no work.
        self.idle = [executor for executor in executors if _is_idle(executor)]
        lost = [executor for executor in executors if _has_work(executor)]
        for module, _ in _KEPT_POOLS:
            # One that the library keeps for its next use is replaced then, and only who holds it finds it broken.
            lost += [executor for executor in _executors_of(_home(module)) if _has_work(executor) or _is_in_variable(executor)]
        self.lost = [f"an executor of processes ({type(executor).__name__}): it is broken" for executor in lost]
        self.lost += ["a pool of multiprocessing: the work that it had"] * sum(map(_has_pending_work, _multiprocessing_pools()))


def take_over(before: int, pools: Pools) -> None:
    """At once in a copy of the process `before`, which had these pools."""
    _forget_kept_pools()
    for executor in pools.idle:
        # The thread ends with the workers, and must not tell the pool.
        executor._executor_manager_thread.executor_reference = _no_executor
    _executors.extend(pools.idle)
    _lost_pools.extend(pools.lost)
    if "multiprocessing.process" not in modules:
        return
    try:
        _take_over_processes(before)
        _take_over_finalizers(before)
        _forget_fork_server()
        _forget_resource_tracker()
    except Exception as error:  # the code has put something else in its place
        _errors.append(error)


def end() -> tuple[list[str], list[str]]:
    """When the processes have ended, and files and descriptors of the copy are its own. Says which pools are lost, and what went
    wrong."""
    try:
        for name, kind in _tracked:
            modules["multiprocessing.resource_tracker"].register(name, kind)
        for finalizer in _pools:
            _renew_pool(finalizer)
        for executor in _executors:
            _renew_executor(executor)
    except Exception as error:
        _errors.append(error)
    for child in _children:
        if isinstance(child._popen, _Guarded):  # else the code has closed it meanwhile
            child._popen = child._popen.ended()
    problems = [f"multiprocessing: what it knows of its processes and pools ({error!r:.200})" for error in _errors]
    lost = list(_lost_pools)
    for kept in _children, _pools, _executors, _lost_pools, _tracked, _errors:
        kept.clear()
    return lost, problems


def _executors_of(module: str) -> list[Any]:
    """The executors of this module that have workers."""
    try:
        found = [thread.executor_reference() for thread in list(modules[module]._threads_wakeups)]
    except Exception:  # not imported, or the code has put something else in its place
        return []
    return [executor for executor in found if executor is not None]


def _home(reusable: str) -> str:
    """The module of the executors that this one keeps."""
    return reusable.replace("reusable_executor", "process_executor")


def _is_in_variable(executor: Any) -> bool:
    try:
        return _is_usable(executor) and any(value is executor for value in list(vars(modules["__main__"]).values()))
    except AttributeError:  # another version
        return False


def _multiprocessing_pools() -> list[Any]:
    try:
        finalizers = list(modules["multiprocessing.util"]._finalizer_registry.values())
        found = [finalizer._weakref() for finalizer in finalizers if _is_of_pool(finalizer)]
    except Exception:  # not imported, or the code has put something else in its place
        return []
    return [pool for pool in found if pool is not None]


def _is_of_pool(finalizer: Any) -> bool:
    return getattr(finalizer._callback, "__name__", "") == "_terminate_pool"


def _has_pending_work(pool: Any) -> bool:
    try:
        return any(not result.ready() for result in list(pool._cache.values()))
    except Exception:  # another kind of pool, or another version
        return False


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
        child._parent_pid = _getpid()
        if isinstance(child._popen, _Guarded):
            _children.append(child)


def _take_over_finalizers(before: int) -> None:
    """What `multiprocessing` does at the end of an object is done by the process that made the object, and by no other."""
    util: Any = modules.get("multiprocessing.util")
    for finalizer in list(util._finalizer_registry.values()) if util is not None else []:
        if finalizer._pid != before:
            continue
        finalizer._pid = _getpid()
        if _is_of_pool(finalizer):
            _pools.append(finalizer)


def _forget_fork_server() -> None:
    server: Any = getattr(modules.get("multiprocessing.forkserver"), "_forkserver", None)
    if server is None or server._forkserver_pid is None:
        return
    alive = server._forkserver_alive_fd
    server._forkserver_pid = server._forkserver_address = server._forkserver_alive_fd = None
    if alive is not None:
        os.close(alive)


def _resource_tracker() -> Any:
    return getattr(modules.get("multiprocessing.resource_tracker"), "_resource_tracker", None)


def _forget_resource_tracker() -> None:
    """The process that removes what is left over. Where it knew of anything, another one is started."""
    tracker = _resource_tracker()
    if tracker is None or tracker._fd is None:
        return
    descriptor = tracker._fd
    tracker._fd = tracker._pid = None
    os.close(descriptor)
    _tracked.extend((name, "semaphore") for name in _named_semaphores())
    _tracked.extend((name, "shared_memory") for name in _named_segments())


def _named_semaphores() -> list[str]:
    finalizers = list(modules["multiprocessing.util"]._finalizer_registry.values())
    own = [finalizer for finalizer in finalizers if getattr(finalizer._callback, "__qualname__", "") == "SemLock._cleanup"]
    return [finalizer._args[0] for finalizer in own]


def _named_segments() -> list[str]:
    """The shared memory of this process that still has its name. Only the objects themselves know it."""
    if "multiprocessing.shared_memory" not in modules:
        return []
    kind = modules["multiprocessing.shared_memory"].SharedMemory
    names = {segment._name for segment in gc.get_objects() if type(segment) is kind and getattr(segment, "_track", True)}
    return [name for name in names if os.path.exists("/dev/shm/" + name.lstrip("/"))]


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


def _is_idle(executor: Any) -> bool:
    try:
        return not (executor._pending_work_items or executor._broken or executor._shutdown_thread)
    except AttributeError:  # another version
        return False


def _is_usable(executor: Any) -> bool:
    flags = getattr(executor, "_flags", None)  # of loky
    return not (executor._broken if flags is None else flags.broken or flags.shutdown)


def _has_work(executor: Any) -> bool:
    try:
        return bool(executor._pending_work_items) and _is_usable(executor)
    except AttributeError:  # another version
        return False


def _no_executor() -> None:
    """What the thread of a pool learns of its pool when the pool is gone."""


def _renew_executor(executor: Any) -> None:
    """Let a pool be as it was when it was made: it starts workers when it gets work."""
    options = {"max_workers": "_max_workers", "mp_context": "_mp_context", "initializer": "_initializer", "initargs": "_initargs"}
    if getattr(executor, "_max_tasks_per_child", None) is not None:  # from Python 3.11 on
        options["max_tasks_per_child"] = "_max_tasks_per_child"
    given = {option: getattr(executor, attribute) for option, attribute in options.items()}
    modules["concurrent.futures.process"].ProcessPoolExecutor.__init__(executor, **given)


class _Guarded:
    """The process of a child. In a copy of the process that started it, it seems to run until `end`: a thread of a pool may ask
    before anything else happens in the copy."""

    def __init__(self, popen: Any) -> None:
        self._popen = popen
        self._parent = _getpid()

    def ended(self) -> Any:
        """What stands for the process from now on."""
        self._popen.returncode = -SIGKILL
        return self._popen

    @property
    def returncode(self) -> Any:
        return self._if_own(lambda: self._popen.returncode)

    def poll(self, *arguments: Any) -> Any:
        return self._if_own(lambda: self._popen.poll(*arguments))

    def wait(self, *arguments: Any, **options: Any) -> Any:
        return self._if_own(lambda: self._popen.wait(*arguments, **options))

    # Not in a copy, where another process may have its id.
    def terminate(self) -> None:
        if self._is_own():
            self._popen.terminate()

    def kill(self) -> None:
        if self._is_own():
            self._popen.kill()

    def _is_own(self) -> bool:
        return self._parent == _getpid()

    def _if_own(self, ask: Callable[[], Any]) -> Any:
        """What is known of the process. A thread that asks may be copied while it does."""
        answer = ask() if self._is_own() else None
        return answer if self._is_own() else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._popen, name)
