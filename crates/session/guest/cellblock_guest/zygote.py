"""The zygote: imports what sessions will need, then makes them by forking. It never runs code of a user's.

It is told everything by the host over one packet socket. A packet is a request for the native library, with descriptors;
the answer is the id of the new session's init as text, or a negative error number. The first packet of ours says that we
are ready.
"""

from __future__ import annotations

import _socket
import gc
import os
import sys

from . import entropy, head, native, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_MOST_BYTES = 65536
_MOST_DESCRIPTORS = 16
_SIZE = 4  # of a descriptor in a message
_CHANNEL = 3  # where a head finds its channel

# Names that snippets use all the time. Imported once here, they are free in every session.
_STANDARD = (
    "_strptime array ast asyncio base64 bisect calendar collections collections.abc contextlib copy csv dataclasses datetime decimal difflib "
    "enum fractions functools glob hashlib heapq html inspect io itertools json locale logging math numbers operator os "
    "pathlib pickle platform pprint queue random re select shutil signal socket sqlite3 ssl statistics string struct subprocess "
    "tempfile textwrap threading time traceback types typing unicodedata urllib.parse uuid warnings weakref zipfile zlib zoneinfo"
).split()
_FULL = ["numpy", "pandas", "matplotlib.pyplot"]


def main(control: int, library: int, preload: str) -> NoReturn:
    """Serves the host until it goes away. Never returns: a session's head goes on in `Head.live`."""
    native.load(library)
    os.close(library)
    socket = _socket.socket(fileno=control)
    loaded = _import_all(preload)
    os.environ.pop("CELLBLOCK_FONT_CACHE", None)
    prepared = head.Head()
    prepared.warm_up()
    # What is alive now stays alive: the collector need not touch it, so sessions keep sharing its pages.
    gc.collect()
    gc.freeze()
    version = "{}.{}.{}".format(*sys.version_info[:3])
    # Without the length that a frame begins with: a packet has its own.
    socket.send(wire.encode({"python": version, "preloaded": loaded})[4:])
    while True:
        request, descriptors = _receive(socket)
        if not request:
            os._exit(0)
        pid = native.spawn(request, descriptors)
        if pid == 0:
            entropy.refresh()
            prepared.live(_CHANNEL)
        socket.send(str(pid).encode())


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


def _receive(socket: _socket.socket) -> tuple[bytes, list[int]]:
    room = _socket.CMSG_LEN(_MOST_DESCRIPTORS * _SIZE)
    request, messages, _, _ = socket.recvmsg(_MOST_BYTES, room, _socket.MSG_CMSG_CLOEXEC)
    descriptors = []
    for level, kind, payload in messages:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            for start in range(0, len(payload) - _SIZE + 1, _SIZE):
                descriptors.append(int.from_bytes(payload[start : start + _SIZE], "little"))
    return request, descriptors
