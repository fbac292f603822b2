"""Sockets that have an address and no connection: servers that listen, and sockets for datagrams. A copy of the head lets go of
them, and makes them anew when it goes on as the head (`forks/unconnected_sockets` of the native code)."""

from __future__ import annotations

import os

from . import BUILTINS as __builtins__
from . import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KIND = 0o140000

# The settings that servers are known to have; the rest is told by its number.
_NAMES = {
    (1, 25): "SO_BINDTODEVICE",
    (1, 26): "SO_ATTACH_FILTER",
    (1, 29): "SO_TIMESTAMP",
    (1, 35): "SO_TIMESTAMPNS",
    (1, 36): "SO_MARK",
    (1, 37): "SO_TIMESTAMPING",
    (1, 46): "SO_BUSY_POLL",
    (1, 50): "SO_ATTACH_BPF",
    (6, 13): "TCP_CONGESTION",
}


class UnconnectedSockets:
    """Those of this process, at a checkpoint."""

    def __init__(self, descriptors: list[tuple[int, int]], besides: tuple[int, ...]) -> None:
        numbers = [number for number, kind in descriptors if kind == KIND and number not in besides]
        looks = [(number, *native.record_socket(number)) for number in numbers]
        # A server that could not be had again as it is.
        self.obstacle = next((_why_not(number, record) for number, look, record in looks if look == native.OBSTACLE), None)
        self._records: Any = native.SocketRecords(
            [record for _, look, record in looks if look == native.RECREATED],
            [number for number, look, _ in looks if look == native.SHARED],
        )

    def leave_to_copy(self) -> None:
        """Have the copy that is made next let go of them."""
        self._records.leave_to_copy()

    def lost(self) -> list[tuple[int, int, str]]:
        """In a copy that was woken: what could not be had again, with the descriptor and with what tells two losses apart."""
        lost = []
        for descriptor, error, had_waiting in self._records:
            if descriptor < 0:  # closed since it was looked at
                continue
            if error:
                lost.append((descriptor, error, f"a socket (descriptor {descriptor}): {os.strerror(error)}"))
            elif had_waiting:
                lost.append((descriptor, 0, f"a socket (descriptor {descriptor}): what waited in it"))
        return lost


def _why_not(number: int, record: bytes) -> str:
    """Why a server could not be had again."""
    level, option = native.obstacle_of_socket(record)
    if not option:
        return f"a socket is listening (descriptor {number})"
    name = _NAMES.get((level, option)) or f"number {option} of level {level}"
    return f"a socket is listening (descriptor {number}) with a setting that cannot be set again: {name}"
