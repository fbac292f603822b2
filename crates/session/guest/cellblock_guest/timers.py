"""Timers that are descriptors (`timerfd`). A copy of the head shares them with the head, which may have set them since."""

from __future__ import annotations

import ctypes

from . import BUILTINS as __builtins__

PATH = "anon_inode:[timerfd]"

# Seconds and nanoseconds: of the interval, and of what is left.
Setting = tuple[int, int, int, int]


def setting(number: int) -> Setting:
    """What a timer is set to. One that has expired, and of which that was not read yet, expires again at once."""
    fields = {}
    with open(f"/proc/self/fdinfo/{number}") as file:
        for line in file:
            name, _, value = line.partition(":")
            fields[name] = value.strip().strip("()")
    if "ticks" not in fields:
        raise ValueError(f"descriptor {number} is no timer any more")
    left = 0, 1
    if fields["ticks"] == "0":
        left = _time(fields["it_value"])
    return *_time(fields["it_interval"]), *left


def put_back(number: int, before: Setting) -> None:
    """Set a timer to what it was."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.timerfd_settime(number, 0, (ctypes.c_long * len(before))(*before), None):
        raise OSError(ctypes.get_errno(), "a timer cannot be set")


def _time(text: str) -> tuple[int, int]:
    seconds, _, rest = text.partition(",")
    return int(seconds), int(rest)
