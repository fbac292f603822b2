"""Process 1 of a session in a container: starts the head, does what the host says, and tells how the head ended.

It speaks with the host as a native init does, in packets of four numbers, as far as there is anything to say in a container.
The host's socket is a file that is mounted into the container; what else the two share comes through it as descriptors. When
the socket ends, so does the container.
"""

from __future__ import annotations

import _socket
import os
import select
import signal
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_SIGNAL, _SWEEP = 1, 2  # from the host
_BORN, _ENDED, _DOOR = 1, 3, 9  # to the host
_MESSAGE = struct.Struct("<4Q")
_PACKAGES = "/environment"
_CHANNEL = 3  # where a head finds its channel
_SIZE = 4  # of a descriptor in a message
_MEMORY_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


def main(path: str, memory: int, doors: list[str]) -> NoReturn:
    """Serves the host at `path` until it goes away. `doors` are addresses on the loopback for it to listen at."""
    host = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    host.connect(path)
    descriptors = _receive_descriptors(host)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _set_open_to_others(False)
    print("Python {}.{}.{} is up".format(*sys.version_info[:3]), flush=True)
    for number, door in enumerate(doors):
        _open_door(host, number, door)
    before = _memory_kills()
    head = os.fork()
    if head == 0:
        _become_head(descriptors, memory)
    for descriptor in descriptors:
        os.close(descriptor)
    _tell(host, _BORN, head)
    _serve(host, head, woken, before)


def _become_head(descriptors: list[int], memory: int) -> NoReturn:
    import resource

    os.setsid()
    signal.set_wakeup_fd(-1)
    for caught in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(caught, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _set_open_to_others(True)
    _write("/proc/self/oom_score_adj", "1000")
    nothing = os.open("/dev/null", os.O_RDONLY)
    channel, out, error = descriptors
    # Out of the way first: any of them may have a number that another one shall get.
    high = [os.dup2(descriptor, 100 + descriptor, inheritable=False) for descriptor in (nothing, out, error, channel)]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, number, inheritable=number != _CHANNEL)
    os.closerange(4, 1024)
    # A clean MemoryError for one process; all together are held by the container's limit.
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    _find_packages()
    from . import head

    head.Head().live(_CHANNEL)


def _find_packages() -> None:
    if os.path.isdir(_PACKAGES) and os.listdir(_PACKAGES):
        import site

        site.addsitedir(_PACKAGES)


def _serve(host: _socket.socket, head: int, woken: int, kills_before: int) -> NoReturn:
    poll = select.poll()
    poll.register(host.fileno(), select.POLLIN)
    poll.register(woken, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if woken in ready:
            os.read(woken, 4096)
            death = _reap(head, os.WNOHANG)
            if death is not None:
                _sweep(head)
                _tell_end(host, death, kills_before)
        if host.fileno() in ready:
            try:
                packet = host.recv(4096)
            except OSError:
                packet = b""
            if len(packet) < _MESSAGE.size:
                os._exit(0)
            kind, a, _, _ = _MESSAGE.unpack_from(packet)
            if kind == _SIGNAL:
                _kill(head, a)
            elif kind == _SWEEP:
                death = _sweep(head)
                if death is not None:
                    _tell_end(host, death, kills_before)


def _sweep(head: int) -> tuple[int, float, int] | None:
    """End everything but this process. The head's end, if it had not been told yet."""
    death = None
    while True:
        _kill(-1, signal.SIGKILL)
        try:
            death = _reap(head, 0) or death
        except ChildProcessError:
            return death


def _reap(head: int, flags: int) -> tuple[int, float, int] | None:
    """Collect those who have ended; wait for one where `flags` say so. How the head ended, if it is among them."""
    while True:
        try:
            pid, status, usage = os.wait4(-1, flags)
        except ChildProcessError:
            if flags:
                return None
            raise
        if pid == head:
            return status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
        if pid == 0 or not flags:
            return None


def _tell_end(host: _socket.socket, death: tuple[int, float, int], kills_before: int) -> None:
    status, seconds, peak = death
    out_of_memory = status & 0x7F == signal.SIGKILL and _memory_kills() > kills_before
    _tell(host, _ENDED, status, int(seconds * 1e6) << 8 | out_of_memory, peak)


def _memory_kills() -> int:
    """How often the kernel ended a process of this container for want of memory."""
    for path in _MEMORY_EVENTS:
        try:
            with open(path) as lines:
                for line in lines:
                    name, _, number = line.partition(" ")
                    if name == "oom_kill":
                        return int(number)
        except (OSError, ValueError):
            continue
    return 0


def _open_door(host: _socket.socket, number: int, door: str) -> None:
    address, _, port = door.rpartition(":")
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind((address, int(port)))
    listener.listen(128)
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", listener.fileno()))
    host.sendmsg([_MESSAGE.pack(_DOOR, number, 0, 0)], [rights])
    listener.close()


def _receive_descriptors(host: _socket.socket) -> list[int]:
    room = _socket.CMSG_LEN(3 * _SIZE)
    _, messages, _, _ = host.recvmsg(4096, room, _socket.MSG_CMSG_CLOEXEC)
    for level, kind, payload in messages:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS and len(payload) == 3 * _SIZE:
            return list(struct.unpack("3i", payload))
    sys.exit("the host sent no descriptors")


def _tell(host: _socket.socket, kind: int, a: int = 0, b: int = 0, c: int = 0) -> None:
    try:
        host.send(_MESSAGE.pack(kind, a, b, c))
    except OSError:
        os._exit(0)


def _set_open_to_others(allowed: bool) -> None:
    """Whether other processes of this user may look into this one and change it."""
    set_dumpable = 4
    try:
        import ctypes

        ctypes.CDLL(None).prctl(set_dumpable, int(allowed), 0, 0, 0)
    except (ImportError, OSError):
        pass


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError:
        pass
