"""The zygote: imports what sessions will need, then makes them by forking. It never runs code of a user's.

It is told everything by the host over one packet socket. A packet is a request for the native library, with descriptors;
the answer is the id of the new session's init as text, or a negative error number. The first packet of ours says that we
are ready.
"""

import _socket
import array
import gc
import json
import os
import signal
import sys
from importlib import import_module, util
from typing import NoReturn

from . import entropy, head, native

_MOST_BYTES = 65536
_MOST_DESCRIPTORS = 16

# Names that snippets use all the time. Imported once here, they are free in every session.
_STANDARD = (
    "array ast asyncio base64 bisect calendar collections collections.abc contextlib copy csv dataclasses datetime decimal "
    "enum fractions functools glob hashlib heapq html inspect io itertools json locale logging math numbers operator os "
    "pathlib pickle platform pprint queue random re shutil signal socket sqlite3 ssl statistics string struct subprocess "
    "tempfile textwrap threading time traceback types typing unicodedata urllib.parse uuid warnings weakref zipfile zlib zoneinfo"
).split()
_FULL = ["numpy", "pandas", "matplotlib.pyplot"]


def main(control: int, library: int, preload: str) -> NoReturn:
    """Serves the host until it goes away. Never returns: a session's head leaves through `head.main`."""
    native.load(library)
    os.close(library)
    socket = _socket.socket(fileno=control)
    loaded = _import_all(preload)
    # What is alive now stays alive: the collector need not touch it, so sessions keep sharing its pages.
    gc.collect()
    gc.freeze()
    socket.send(json.dumps({"python": ".".join(map(str, sys.version_info[:3])), "preloaded": loaded}).encode())
    while True:
        request, descriptors = _receive(socket)
        if not request:
            os._exit(0)
        pid = native.spawn(request, descriptors)
        if pid == 0:
            _become_head()
        socket.send(str(pid).encode())


def _become_head() -> NoReturn:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    entropy.refresh()
    head.main(3)


def _import_all(preload: str) -> list[str]:
    wanted = {"none": [], "standard": _STANDARD, "full": _STANDARD + _FULL}[preload]
    loaded = []
    for name in wanted:
        # A library that is there but broken is the business of the cell that imports it.
        try:
            if util.find_spec(name.partition(".")[0]) is not None:
                import_module(name)
                loaded.append(name)
        except Exception:
            continue
    if "matplotlib.pyplot" in loaded:
        from . import plotting

        plotting.configure()
    return loaded


def _receive(socket: _socket.socket) -> tuple[bytes, list[int]]:
    room = _socket.CMSG_LEN(_MOST_DESCRIPTORS * array.array("i").itemsize)
    request, messages, _, _ = socket.recvmsg(_MOST_BYTES, room, _socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, payload in messages:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
    return request, list(descriptors)
