"""Libraries that keep the id of their process and refuse to work in a process with another one, as the copy of a head is."""

from __future__ import annotations

from . import BUILTINS as __builtins__
from .libraries import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def lost(has_event_counters: bool) -> list[str]:
    """In a copy that was woken: what of these libraries is in use and does not work any more."""
    lost = []
    # Each of its sockets has such a counter, and other libraries have some too.
    if has_event_counters and "zmq" in modules:
        lost.append(
            "sockets of ZeroMQ, if there are any: they refuse a process with another id, so make a new context and new sockets"
        )
    if _has_clusters():
        lost.append("clusters of dask.distributed inside this process: they refuse a process with another id, so start a new one")
    return lost


def _has_clusters() -> bool:
    communication: Any = modules.get("distributed.comm.inproc")
    try:
        return bool(communication.global_manager.listeners)
    except AttributeError:  # not imported, or another version
        return False
