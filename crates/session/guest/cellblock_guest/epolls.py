"""What an epoll watches, with the number that the code registered each descriptor with: by that number runtimes such as tokio
find their own objects, and Python's `select.epoll` cannot set it."""

from __future__ import annotations

import ctypes

from . import BUILTINS as __builtins__

PATH = "anon_inode:[eventpoll]"
_ADD, _REMOVE, _CHANGE = 1, 2, 3

# A descriptor, the events that are waited for, and the number.
Watched = dict[int, tuple[int, int]]


class _Event(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("events", ctypes.c_uint32), ("data", ctypes.c_uint64)]


def watched(number: int) -> Watched:
    found = {}
    with open(f"/proc/self/fdinfo/{number}") as file:
        for line in file:
            words = line.split()
            if words and words[0] == "tfd:":
                found[int(words[1])] = int(words[3], 16), int(words[5], 16)
    return found


def add_missing(number: int, before: Watched) -> None:
    """In a fork, when all descriptors are what they shall be: have the epoll watch those again that it does not."""
    now = watched(number)
    for descriptor, (events, data) in before.items():
        if descriptor not in now:
            try:
                _control(number, _ADD, descriptor, events, data)
            except OSError:  # closed: nothing can be watched there
                pass


def put_back(number: int, before: Watched) -> None:
    """Have the epoll watch what it watched before, and nothing else."""
    now = watched(number)
    for descriptor in now.keys() - before.keys():
        try:
            _control(number, _REMOVE, descriptor, 0, 0)
        except OSError:  # it has ended with the head
            pass
    for descriptor, registration in before.items():
        if now.get(descriptor) != registration:
            _control(number, _CHANGE if descriptor in now else _ADD, descriptor, *registration)


def _control(number: int, what: int, descriptor: int, events: int, data: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.epoll_ctl(number, what, descriptor, ctypes.byref(_Event(events, data))):
        raise OSError(ctypes.get_errno(), "an epoll cannot be changed")
