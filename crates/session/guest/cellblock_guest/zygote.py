"""The zygote: imports what sessions will need, then makes them by forking. It never runs code of a user's.

It is told everything by the host over one packet socket. A packet is a request for the native library, with descriptors;
the answer is the id of the new session's init as text, or a negative error number. The first packet of ours says that we
are ready. While no request comes, it makes the processes of the next session ahead of time.
"""

from __future__ import annotations

import _socket
import gc
import os
import sys

from . import entropy, head, layout, native, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_MAX_REQUEST_BYTES = 65536
_MAX_DESCRIPTORS = 16
_DESCRIPTOR_BYTES = 4  # in a message
_CHANNEL = 3  # where a head finds its channel
_QUIET_SECONDS = 0.01  # seconds without a request

# Names that snippets use all the time. Imported once here, they are free in every session.
_STANDARD = (
    "_strptime array ast asyncio base64 bisect calendar collections collections.abc contextlib copy csv dataclasses datetime "
    "decimal difflib enum fractions functools glob hashlib heapq html inspect io itertools json locale logging math numbers "
    "operator os pathlib pickle platform pprint queue random re select shutil signal socket sqlite3 ssl statistics string "
    "struct subprocess tempfile textwrap threading time traceback types typing unicodedata urllib.parse uuid warnings weakref "
    "zipfile zlib zoneinfo"
).split()
_FULL = ["numpy", "pandas", "matplotlib.pyplot"]


def main(control: int, library: int, preload: str, walls: int, shell: str) -> NoReturn:
    """Serves the host until it goes away. Never returns: a session's head goes on in `Head.live`."""
    native.load(library)
    os.close(library)
    socket = _socket.socket(fileno=control)
    loaded = _import_all(preload)
    # Variables for this process alone.
    for name in ("CELLBLOCK_FONT_CACHE", "PYTHONHASHSEED"):
        os.environ.pop(name, None)
    prepared = head.Head()
    if shell != "plain":
        prepared.use_ipython(shell)
    prepared.warm_up()
    # What is alive now stays alive: the collector need not touch it, so sessions keep sharing its pages.
    gc.collect()
    gc.freeze()
    layout.join_mappings()
    version = "{}.{}.{}".format(*sys.version_info[:3])
    # Without the length that a frame begins with: a packet has its own.
    socket.send(wire.encode({"python": version, "preloaded": loaded})[4:])
    sessions = _Sessions(socket, walls, prepared)
    while True:
        # Not both in one: a head goes on where it was made, and must find neither the last request nor a time-out that is being
        # handled.
        if not sessions.serve():
            sessions.spawn_ahead()


class _Sessions:
    """The sessions to come. The processes of the next one wait for its request."""

    def __init__(self, socket: _socket.socket, walls: int, prepared: head.Head) -> None:
        self._socket = socket
        self._walls = walls
        self._prepared = prepared
        self._prespawned: tuple[int, int] | None = None
        self._next_is_due = True

    def serve(self) -> bool:
        """Make a session for the next request. False if none came, and the processes of the next session are to be spawned
        ahead."""
        asked = _receive(self._socket, _QUIET_SECONDS if self._next_is_due else None)
        if asked is None:
            return False
        request, descriptors = asked
        if not request:
            os._exit(0)
        self._socket.send(str(self._spawn(request, descriptors)).encode())
        return True

    def spawn_ahead(self) -> int:
        """Make the processes of the next session. Returns 0, or a negative error number."""
        self._next_is_due = False  # even if it fails: then it is not tried again before the next request
        try:
            init, socket = native.spawn_ahead(self._walls)
        except OSError as error:
            return -(error.errno or 1)
        if init == 0:
            _live(self._prepared, socket)
        self._prespawned = init, socket
        return 0

    def _spawn(self, request: bytes, descriptors: list[int]) -> int:
        """Make a session. Returns the id of its init, or a negative error number."""
        pid = self._deliver(request, descriptors) if self._prespawned else 0
        if pid <= 0:
            # No processes were spawned ahead, or they were killed meanwhile.
            pid = self.spawn_ahead() or self._deliver(request, descriptors)
        self._next_is_due = True
        for descriptor in descriptors:
            os.close(descriptor)
        return pid

    def _deliver(self, request: bytes, descriptors: list[int]) -> int:
        assert self._prespawned is not None
        (init, socket), self._prespawned = self._prespawned, None
        error = native.deliver(init, socket, request, descriptors)
        os.close(socket)
        return error or init


def _live(prepared: head.Head, socket: int) -> NoReturn:
    """The life of a head."""
    try:
        entropy.refresh()
        prepared.get_ready()
        native.harden_and_start(socket)
        prepared.live(_CHANNEL)
    finally:
        os._exit(1)


def _import_all(preload: str) -> list[str]:
    wanted = {"none": [], "standard": _STANDARD, "full": _STANDARD + _FULL}[preload]
    if preload == "full":
        _bring_fonts()
    loaded = []
    for name in wanted:
        # A library that is not there, or broken, is the business of the cell that imports it.
        try:
            __import__(name)
            loaded.append(name)
        except Exception:
            continue
    if "matplotlib.pyplot" in loaded:
        from . import plotting

        plotting.configure()
    return loaded


def _bring_fonts() -> None:
    """matplotlib's list of fonts takes seconds to make, and it wants the directory of the list to be writable."""
    source, target = os.environ.get("CELLBLOCK_FONT_CACHE", ""), os.environ.get("MPLCONFIGDIR", "")
    if not source or not target:
        return
    from shutil import copytree

    try:
        copytree(source, target, dirs_exist_ok=True)
    except OSError:
        pass


def _receive(socket: _socket.socket, patience: float | None) -> tuple[bytes, list[int]] | None:
    """The next request with its descriptors; None if none comes in time."""
    room = _socket.CMSG_LEN(_MAX_DESCRIPTORS * _DESCRIPTOR_BYTES)
    socket.settimeout(patience)
    try:
        request, messages, _, _ = socket.recvmsg(_MAX_REQUEST_BYTES, room, _socket.MSG_CMSG_CLOEXEC)
    except TimeoutError:
        return None
    finally:
        socket.settimeout(None)
    descriptors = []
    for level, kind, payload in messages:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            for start in range(0, len(payload) - _DESCRIPTOR_BYTES + 1, _DESCRIPTOR_BYTES):
                descriptors.append(int.from_bytes(payload[start : start + _DESCRIPTOR_BYTES], "little"))
    return request, descriptors
