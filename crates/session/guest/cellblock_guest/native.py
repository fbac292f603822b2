"""The native library: forks that Python itself cannot make.

The library is a file in memory that the launcher left open. It is called with the interpreter lock held, so that no other
thread of ours runs while the process is being copied.
"""

from __future__ import annotations

import ctypes
import os
import sys

from . import BUILTINS as __builtins__
from . import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

# Whether Python can still join threads that have ended: it holds on to libc's record of each, which libc's `fork` gives away in
# the copy. A bare `clone` keeps these records.
_JOINS_ENDED_THREADS = sys.version_info >= (3, 13)

# Functions of libc whose system calls init is notified of. A signal that comes while they wait for init must not make them fail:
# on Linux they never fail with `EINTR`, and Python does not expect it of them.
_NOT_INTERRUPTED = (
    "rename renameat renameat2 unlink unlinkat rmdir link linkat remove truncate truncate64"
    " chmod fchmod fchmodat chown fchown lchown fchownat utime utimes utimensat futimens futimesat lutimes"
    " setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr"
    " kill tgkill sigqueue setpriority prlimit prlimit64 setrlimit setrlimit64"
    " sched_setaffinity sched_setparam sched_setscheduler listen"
).split()

# Functions of libc that map memory: where the limit refuses what is only reserved, the native library makes room.
_MAPPING = "mmap mmap64 mprotect mremap".split()

# Before Python 3.12 asyncio notes, for each thread, in which process its loop runs. How the native library finds these notes.
_NOTES_PROCESSES = sys.version_info < (3, 12)
_WALK = "PyInterpreterState_Get PyInterpreterState_ThreadHead PyThreadState_Next _PyThreadState_GetDict PyDict_GetItem".split()
_NOTE = "__asyncio_running_event_loop__"

# The numbers for each file whose offset is noted: its descriptor, and what native code notes of it.
_FILE_NUMBERS = 3

# What is to be done about a socket in copies: see `record_socket`.
SHARED, RECREATED, OBSTACLE = 0, 1, 2
# What is not as it was of a socket: see `put_socket_back`.
AS_BEFORE, OPTION, CONNECTION = 0, 1, 2

_library: ctypes.PyDLL | None = None
_walk: Any = None  # memory that the native library reads
_fork: ctypes.c_void_p | None = None


def load(descriptor: int) -> None:
    """Loads the library. Called once, in the zygote."""
    global _library, _fork
    _library = ctypes.PyDLL(f"/proc/self/fd/{descriptor}")
    _library.cellblock_spawn_ahead.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    _library.cellblock_deliver.argtypes = [
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_int),
        ctypes.c_size_t,
    ]
    _library.cellblock_harden_and_start.argtypes = [ctypes.c_int]
    _library.cellblock_side_fork.argtypes = [ctypes.c_void_p]
    _library.cellblock_stand_by.argtypes = [
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_size_t),
        ctypes.POINTER(ctypes.c_int64),
        ctypes.c_size_t,
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_int),
    ]
    _library.cellblock_socket_record_bytes.restype = ctypes.c_size_t
    _library.cellblock_record_socket.argtypes = [ctypes.c_int, ctypes.c_char_p]
    _library.cellblock_socket_state_bytes.restype = ctypes.c_size_t
    _library.cellblock_note_socket_state.argtypes = [ctypes.c_int, ctypes.c_char_p]
    _library.cellblock_put_socket_back.argtypes = [ctypes.c_int, ctypes.c_char_p]
    _library.cellblock_remember_sockets.argtypes = [
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_int),
        ctypes.c_size_t,
    ]
    _library.cellblock_lost_memory.argtypes = [ctypes.c_int]
    _library.cellblock_lost_memory.restype = ctypes.c_uint64
    _library.cellblock_has_put_back.argtypes = [ctypes.c_int]
    _library.cellblock_restartable_sequences.argtypes = [ctypes.c_ssize_t, ctypes.c_size_t]
    _library.cellblock_thread_id.argtypes = [ctypes.c_int]
    _library.cellblock_restart_calls.argtypes = [ctypes.POINTER(ctypes.c_size_t), ctypes.c_size_t]
    _library.cellblock_remember_own_copies.argtypes = [ctypes.c_void_p, ctypes.c_size_t] * 3
    _library.cellblock_copy_into_fork.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int)]
    # libc's own fork: it runs the handlers that BLAS libraries and allocators registered.
    libc = ctypes.CDLL(None)
    _fork = ctypes.cast(libc.fork, ctypes.c_void_p)
    _tell_of_restartable_sequences(libc)
    if _NOTES_PROCESSES:
        _tell_of_python_threads()
    _restart_interrupted_calls(libc)


def spawn_ahead(walls: int) -> tuple[int, int]:
    """Make the processes of a session that will be behind these walls: the id of its init in the zygote, 0 in its head, each with
    a socket."""
    assert _library is not None
    return _with_descriptor(lambda own: _library.cellblock_spawn_ahead(walls, _fork, own))


def deliver(init: int, socket: int, request: bytes, descriptors: list[int]) -> int:
    """Send the processes that were spawned ahead the request for their session: 0, or a negative error number when they are
    gone."""
    assert _library is not None
    array = (ctypes.c_int * len(descriptors))(*descriptors)
    return int(_library.cellblock_deliver(init, socket, request, len(request), array, len(descriptors)))


def harden_and_start(socket: int) -> None:
    """In the head: wait for the request, and put up the walls."""
    assert _library is not None
    _library.cellblock_harden_and_start(socket)


def side_fork() -> int:
    """Like `os.fork`, but the child belongs to init: no `wait` of the user's sees it, no SIGCHLD comes."""
    assert _library is not None
    pid = _around_fork(lambda: _library.cellblock_side_fork(_fork))
    if pid < 0:
        raise BlockingIOError(-pid, "the process could not be copied")
    return pid


class ThreadInTheWay(OSError):
    """A thread that cannot be stopped, so that the process cannot be copied with its threads."""

    def __init__(self, number: int, thread: int) -> None:
        super().__init__(number, os.strerror(number))
        self.thread = thread


def stand_by(
    channel: int,
    next_channel: int,
    answer: bytes,
    places: tuple[int, int],
    files: list[int],
    own_memory: Any,
    has_threads: bool,
) -> tuple[int, int]:
    """Make a frozen copy of this process, which speaks on `channel`: the copy's id at once in the caller, 0 in the copy when init
    wakes it to speak on the next one. The answer is sent on the channel, with that id written over the digits at the first of the
    places, and at the second how many bytes of shared memory the copy does not put back.
    The second number is for a copy that was woken: the id of the frozen copy that it left behind, or 0. The copy finds the files
    at the offsets that they have now, and shared memory as it is now, but for what the guest itself shares with its copies. Where
    this process has other threads, the copy has them too when it is woken. Python in the copy is not told of a fork: it goes on
    as this process, and to begin anew, as in a child, would take it a millisecond."""
    assert _library is not None
    left = ctypes.c_int(0)
    fork = None if has_threads or _JOINS_ENDED_THREADS else _fork
    offsets = (ctypes.c_int64 * (_FILE_NUMBERS * len(files)))()
    for index, file in enumerate(files):
        offsets[_FILE_NUMBERS * index] = file
    digits = (ctypes.c_size_t * 2)(*places)
    memory = ctypes.addressof(ctypes.c_char.from_buffer(own_memory))
    arguments = fork, channel, next_channel, answer, len(answer), digits, offsets, len(files), memory, ctypes.byref(left)
    pid = _around_fork(lambda: _library.cellblock_stand_by(*arguments), goes_on=True)
    if pid < 0 and has_threads:
        raise ThreadInTheWay(-pid, left.value)
    if pid < 0:
        raise BlockingIOError(-pid, os.strerror(-pid))
    return pid, left.value


def record_socket(descriptor: int) -> tuple[int, bytes]:
    """Look at a socket: `RECREATED` if copies of this process make it anew from the record, `OBSTACLE` if it listens and cannot
    be made anew, `SHARED` if they share it."""
    assert _library is not None
    record = ctypes.create_string_buffer(_library.cellblock_socket_record_bytes())
    return int(_library.cellblock_record_socket(descriptor, record)), record.raw


def socket_state(descriptor: int) -> bytes:
    """The options of a socket, and its connection."""
    assert _library is not None
    state = ctypes.create_string_buffer(_library.cellblock_socket_state_bytes())
    _library.cellblock_note_socket_state(descriptor, state)
    return state.raw


def put_socket_back(descriptor: int, state: bytes) -> int:
    """Set the options of a socket as they were: `AS_BEFORE`, or what is not as it was."""
    assert _library is not None
    return int(_library.cellblock_put_socket_back(descriptor, state))


def obstacle_of_socket(record: bytes) -> tuple[int, int]:
    """Level and number of the setting for which a socket is an obstacle; zeros if it is not for a setting."""
    _, _, _, level, option = (ctypes.c_int * 5).from_buffer_copy(record)
    return level, option


class SocketRecords:
    """The sockets that a copy of this process makes anew. The copy needs the object until it was woken."""

    # How a record begins: the descriptor, why it could not be made anew, whether something waited in it.
    _FIRST = 3

    def __init__(self, records: list[bytes], connections: list[int]) -> None:
        self._count = len(records)
        self._size = len(records[0]) if records else 0
        # Native code writes into it.
        self._memory = ctypes.create_string_buffer(b"".join(records), self._count * self._size)
        # One of them may be at the port of a server.
        self._connections = (ctypes.c_int * len(connections))(*connections)

    def leave_to_copy(self) -> None:
        """Have the copy that is made next let go of these sockets, and of no others."""
        assert _library is not None
        _library.cellblock_remember_sockets(self._memory, self._count, self._connections, len(self._connections))

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        numbers = ctypes.c_int * self._FIRST
        for index in range(self._count):
            yield tuple(numbers.from_buffer(self._memory, index * self._size))


def lost_memory() -> tuple[int, int]:
    """In a copy that was woken: how many bytes of shared memory could not be put back, and how many names in `/dev/shm`."""
    assert _library is not None
    return int(_library.cellblock_lost_memory(0)), int(_library.cellblock_lost_memory(1))


def has_put_back(file: int) -> bool:
    """In a copy that was woken: whether all that an open file holds was put back with shared memory."""
    assert _library is not None
    return bool(_library.cellblock_has_put_back(file))


def has_other_threads() -> bool:
    """Whether this process has other threads than the caller, Python's or a library's. The kernel tells it also where `/proc`
    cannot be read. Where there is no native library it is not known, so the answer is yes."""
    return _library is None or bool(_library.cellblock_has_other_threads())


def thread_id(old: int) -> int:
    """The id that a thread has in a copy that was woken, which had another in the original; 0 for one that is not known."""
    assert _library is not None
    return int(_library.cellblock_thread_id(old))


def interrupt_threads() -> None:
    """Interrupt the system calls that other threads wait in, so that each of them looks anew what its descriptor leads to."""
    assert _library is not None
    _library.cellblock_interrupt_threads()


def remember_own_copies(replacements: Any, ends: Any, areas: Any) -> None:
    """Have the copy that `copy_into_fork` makes next replace what it has in common with this process (`own_copies`)."""
    assert _library is not None
    _library.cellblock_remember_own_copies(
        ctypes.byref(replacements), len(replacements), ctypes.byref(ends), len(ends) // 2, ctypes.byref(areas), len(areas)
    )


def copy_into_fork(channel: int, has_threads: bool) -> tuple[int, int]:
    """Copy this process, which speaks on `channel`, into the fork that init has prepared. In the copy the first number is 0, and
    the second is its own channel. Where this process has other threads, the copy has them too, and Python in it is not told of a
    fork."""
    assert _library is not None
    told = ctypes.c_int(0)
    fork = None if has_threads else _fork
    pid = _around_fork(lambda: _library.cellblock_copy_into_fork(fork, channel, ctypes.byref(told)), has_threads)
    if pid < 0 and has_threads and told.value:
        raise ThreadInTheWay(-pid, told.value)
    if pid < 0:
        raise OSError(-pid, os.strerror(-pid))
    return pid, told.value


def take_memory_reserve() -> bool:
    """Let this process use what is set aside for the interpreter beyond the memory limit. False where there is no native
    library."""
    if _library is None:
        return False
    _library.cellblock_take_memory_reserve()
    return True


def forbid_changes() -> None:
    """Give up, for good, every way to change the file system. Where the kernel cannot do that, nothing happens."""
    assert _library is not None
    _library.cellblock_forbid_changes()


def _tell_of_restartable_sequences(libc: ctypes.CDLL) -> None:
    """glibc from 2.35 on says where each thread has its area for them. An older one has none."""
    assert _library is not None
    try:
        offset = ctypes.c_ssize_t.in_dll(libc, "__rseq_offset").value
        size = ctypes.c_uint.in_dll(libc, "__rseq_size").value
    except ValueError:
        return
    if size:
        # The kernel takes the size of its first version or more; glibc says how much of it is in use.
        _library.cellblock_restartable_sequences(offset, max(32, size))


def _tell_of_python_threads() -> None:
    """In a copy of the process the notes of asyncio must be right before any thread runs, so native code renews them."""
    global _walk
    assert _library is not None
    functions = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _WALK]
    _walk = (ctypes.c_void_p * (len(functions) + 1))(*functions, id(_NOTE))
    _library.cellblock_python_threads(_walk)


def _restart_interrupted_calls(libc: ctypes.CDLL) -> None:
    """Have calls made again that a signal interrupts, and those that map memory where there is room after all."""
    assert _library is not None
    restart = _library.cellblock_restart_calls
    functions = [getattr(libc, name, None) for name in _NOT_INTERRUPTED + _MAPPING]
    addresses = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions if function is not None]
    layout.change_code(addresses[0], lambda: restart((ctypes.c_size_t * len(addresses))(*addresses), len(addresses)))


def _with_descriptor(fork: Callable[[Any], int]) -> tuple[int, int]:
    """What a fork returns, and the descriptor that it leaves to each side."""
    own = ctypes.c_int(-1)
    pid = _around_fork(lambda: fork(ctypes.byref(own)))
    if pid < 0:
        raise OSError(-pid, os.strerror(-pid))
    return pid, own.value


def _around_fork(fork: Callable[[], int], goes_on: bool = False) -> int:
    """Tell Python about a fork, and a copy that it is one, unless it goes on in the place of this process."""
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    pid = -1
    try:
        pid = fork()
    finally:
        if pid == 0 and not goes_on:
            python.PyOS_AfterFork_Child()
        else:
            python.PyOS_AfterFork_Parent()
    return pid
