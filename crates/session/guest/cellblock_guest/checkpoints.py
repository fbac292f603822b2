"""A frozen copy of the head, made between two cells, that goes on when the head dies.

The copy is a fork, so nearly everything is in it: objects, functions, open files, generators, trained models. What a fork
does not carry is either put right here (file offsets, threads) or makes the
checkpoint unavailable, with a reason that a person can read.
"""

from __future__ import annotations

import os
from _socket import SO_ACCEPTCONN, SOL_SOCKET, socket
from errno import EAGAIN, EOVERFLOW, EPERM
from resource import RUSAGE_SELF, getpagesize, getrusage
from sys import getswitchinterval, setswitchinterval

from . import BUILTINS as __builtins__
from . import child_processes, native
from .libraries import modules
from .prefork_state import PreForkState
from .wire import encode

# Bound here: code may replace what `os` consists of.
_getpid = os.getpid
_waitid = os.waitid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .wire import Frame

# The host looks for it: it makes room and asks again.
TOO_MANY_PROCESSES = "there are too many processes and threads for one more copy (raise the limit `processes`)"
_SOCKET = 0o140000
_KIND = 0o170000
_MOST_GUESSED = 1024
# All of the answer has room in 4096 bytes: native code sends it.
_MOST_CHILDREN = 8
_LONGEST_NAME = 100
_PAGE = getpagesize()
_WAIT_FOR_ALL = 0x40000000  # also for children that end without SIGCHLD
_NOT_KNOWN_YET = 9_999_999_999  # as many digits as an id may have
_NO_SWITCH_SECONDS = 1.0


class Woken(BaseException):
    """Raised in a copy that was woken: it is the head now."""

    def __init__(self, standby: int, prefork_state: PreForkState) -> None:
        super().__init__()
        self.standby = standby  # the copy that it left behind, or 0
        self.prefork_state = prefork_state


def fork_obstacle(descriptors: list[tuple[int, int]], channels: tuple[int, ...]) -> str | None:
    """Why a fork could not have the state as it is, or None. The channels to the host are no sockets of the code's."""
    if reason := _graphics_card():
        return reason
    for descriptor, kind in descriptors:
        if kind == _SOCKET and descriptor not in channels and _listens(descriptor):
            return "a socket is listening"
    return None


def _graphics_card() -> str | None:
    torch: Any = modules.get("torch")
    if torch is not None and getattr(getattr(torch, "cuda", None), "is_initialized", bool)():
        return "CUDA is in use, and a graphics card's memory cannot be copied"
    return None


def make(channel: int, next_channel: int, descriptors: list[tuple[int, int]], answer: Frame, own_memory: Any) -> str | None:
    """Copy this process, which serves `channel`, and answer with the copy's id; or say why not. In the copy, when it is woken to
    serve the next channel, raises `Woken`. `own_memory` is what the head itself shares with its copies."""
    prefork_state = PreForkState(descriptors, (channel, next_channel))
    if reason := _graphics_card() or prefork_state.sockets.obstacle:
        return reason
    prefork_state.sockets.leave_to_copy()
    frame = encode({**answer, "pid": _NOT_KNOWN_YET, "left_out": _NOT_KNOWN_YET})
    digits = str(_NOT_KNOWN_YET).encode()
    places = frame.index(digits, frame.index(b'"pid"')), frame.index(digits, frame.index(b'"left_out"'))
    has_threads = native.has_other_threads()
    process = _getpid()
    child_processes.guard()
    pools = child_processes.Pools()
    try:
        with OtherThreadsWait(has_threads):
            pid, left = native.stand_by(channel, next_channel, frame, places, prefork_state.files, own_memory, has_threads)
            if not pid:
                renew_ids(process, pools)
    except native.ThreadInTheWay as error:
        return why_not_stopped(error)
    if pid:
        return None
    raise Woken(left, prefork_state)


class OtherThreadsWait:
    """Lets no other thread run Python code while this one does. The threads of a copy run as soon as the copy does, and must not
    find ids of the process that it was copied from."""

    def __init__(self, has_threads: bool) -> None:
        self._has_threads = has_threads
        self._interval = getswitchinterval()

    def __enter__(self) -> None:
        if self._has_threads:
            setswitchinterval(_NO_SWITCH_SECONDS)

    def __exit__(self, *_: object) -> None:
        if self._has_threads:
            setswitchinterval(self._interval)


def why_not_stopped(error: native.ThreadInTheWay) -> str:
    """What to tell a person about a thread that could not be stopped."""
    if not error.thread and error.errno == EAGAIN:
        return TOO_MANY_PROCESSES
    if not error.thread:
        return f"there are other threads, and they cannot be copied here: {error.strerror}"
    name = _name_of_thread(error.thread)
    why = {EPERM: "it blocks all signals", EOVERFLOW: "there are too many threads"}.get(error.errno or 0, "it does not stop")
    return f"a thread cannot be copied ({name}): {why}"


def _name_of_thread(thread: int) -> str:
    """The name that the code gave a thread; that of the kernel for one that is not Python's, or has a name of its own there."""
    try:
        with open(f"/proc/self/task/{thread}/comm") as file:
            name = file.read().strip()
        with open("/proc/self/comm") as file:
            is_named = name != file.read().strip()
    except OSError:
        return "ended meanwhile"
    threading: Any = modules.get("threading")
    try:
        named = {} if is_named or threading is None else {one.native_id: one.name for one in threading.enumerate()}
        return str(named.get(thread, name))
    except Exception:  # the code has put something else in its place
        return name


def why_not_copied(error: Exception) -> str:
    """What to tell a person about a copy that could not be made."""
    if isinstance(error, BlockingIOError):
        return TOO_MANY_PROCESSES
    return f"the process could not be copied: {error}"


def size() -> dict[str, int]:
    """What this process holds of its own, and how many pages it ever touched: what tells the host what a copy costs."""
    return {"resident": _own_bytes(), "faults": getrusage(RUSAGE_SELF).ru_minflt}


def children() -> list[str]:
    """The child processes of this one, by name. They end before a copy of this process is woken, so a restore cannot bring them
    back, but for those of `multiprocessing` that are started again when they are needed."""
    found: list[str] = []
    if not _has_children():
        return found
    renewed = child_processes.renewed()
    try:
        # Any thread can have started one.
        for task in os.listdir("/proc/self/task"):
            for child in _read(f"/proc/self/task/{task}/children").split():
                if len(found) == _MOST_CHILDREN:
                    return [*found, "(and more)"]
                if int(child) not in renewed and (name := _name_of_running(child.decode())):
                    found.append(name)
    except OSError:  # no /proc behind these walls
        pass
    return found


def _has_children() -> bool:
    """Whether any thread has a child process, also one that has ended. The kernel is asked: to open files takes longer."""
    try:
        _waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | _WAIT_FOR_ALL)
    except ChildProcessError:
        return False
    except OSError:
        pass
    return True


def _name_of_running(pid: str) -> str | None:
    """What a process was started as, with its id; None if it has ended and was only not waited for yet."""
    try:
        before, _, after = _read(f"/proc/{pid}/stat").rpartition(b")")
        if after.split()[0] in (b"Z", b"X"):
            return None
        command = _read(f"/proc/{pid}/cmdline")
        # A fork of this process has the same command; its name may be its own.
        words = before.partition(b"(")[2] if command == _read("/proc/self/cmdline") else command.replace(b"\0", b" ").strip()
        # Plain letters: others take more room in JSON.
        name = "".join(chr(byte) if 32 <= byte < 127 else "?" for byte in words[:_LONGEST_NAME])
        return f"{name} ({pid})"
    except (OSError, IndexError):
        return None


def _read(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 4096)
    finally:
        os.close(file)


def _own_bytes() -> int:
    try:
        file = os.open("/proc/self/statm", os.O_RDONLY)
    except OSError:  # no /proc behind these walls
        return 0
    fields = os.read(file, 200).split()
    os.close(file)
    return (int(fields[1]) - int(fields[2])) * _PAGE


def renew_ids(process: int, pools: child_processes.Pools) -> None:
    """In a copy of `process`: what Python remembers of its threads, and of the children of the process: also the pools that
    had no work. What asyncio remembers, native code has renewed before any thread ran."""
    _renew_thread_ids()
    child_processes.take_over(process, pools)


def _renew_thread_ids() -> None:
    try:
        threading: Any = modules["threading"]
        main = threading.main_thread()
        main._set_native_id()
        for thread in threading.enumerate():
            if thread is not main and (new := native.thread_id(thread._native_id)):
                thread._native_id = new
    except Exception:  # not imported, or the code has put something else in its place
        pass


def descriptors() -> list[tuple[int, int]]:
    """The open descriptors, each with what kind of file it is."""
    found = []
    for descriptor in _open_descriptors():
        try:
            found.append((descriptor, os.fstat(descriptor).st_mode & _KIND))
        except OSError:  # the one that listed the directory, or one that was only guessed
            pass
    return found


def _open_descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:  # no /proc behind these walls
        return list(range(_MOST_GUESSED))


def _listens(descriptor: int) -> bool:
    handle = socket(fileno=os.dup(descriptor))
    try:
        return bool(handle.getsockopt(SOL_SOCKET, SO_ACCEPTCONN))
    except OSError:
        return False
    finally:
        handle.close()
