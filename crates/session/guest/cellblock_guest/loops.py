"""`await` at the top of a cell. One event loop lasts for the session, so that tasks and connections made on it go on."""

from __future__ import annotations

import ctypes
import os

from . import BUILTINS as __builtins__
from .libraries import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Coroutine, Iterator
    from typing import Any

# `PyRunningLoopHolder` of asyncio, before Python 3.12: the object's head, the loop, the process.
_HOLDER = "__asyncio_running_event_loop__"
_OFFSET_OF_PROCESS = 24

# Bound here: code may replace what `os` consists of.
_getpid = os.getpid

_loop: AbstractEventLoop | None = None


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    global _loop
    import asyncio

    if _loop is None or _loop.is_closed():
        _loop = asyncio.new_event_loop()
    asyncio.set_event_loop(_loop)
    task = _loop.create_task(coroutine)
    try:
        return _loop.run_until_complete(task)
    except BaseException:
        if not task.done():  # interrupted from outside: the cell's own task must not go on in the next one
            task.cancel()
            try:
                _loop.run_until_complete(task)
            except BaseException:
                pass
        elif not task.cancelled():
            task.exception()  # else asyncio complains that no one looked at it
        raise


def renew_process_ids(before: int) -> None:
    """In a copy of the process `before`: asyncio takes a loop for running only in the process that started it. It notes the
    process for each thread, in an object that only C can change."""
    if "_asyncio" not in modules:
        return
    try:
        for holder in list(_holders()):
            # From Python 3.12 on the loop itself is there.
            if type(holder).__name__ != "_RunningLoopHolder":
                continue
            noted = ctypes.c_int.from_address(id(holder) + _OFFSET_OF_PROCESS)
            if noted.value == before:
                noted.value = _getpid()
    except Exception:  # a Python without these functions
        pass


def _holders() -> Iterator[Any]:
    """What asyncio keeps of the loop that runs in each thread."""
    python = ctypes.pythonapi
    for function in (python.PyInterpreterState_Get, python.PyInterpreterState_ThreadHead, python.PyThreadState_Next):
        function.restype = ctypes.c_void_p
    # A reference that is not ours to keep, or nothing.
    python._PyThreadState_GetDict.restype = ctypes.c_void_p
    state = python.PyInterpreterState_ThreadHead(ctypes.c_void_p(python.PyInterpreterState_Get()))
    while state:
        if address := python._PyThreadState_GetDict(ctypes.c_void_p(state)):
            values = ctypes.cast(address, ctypes.py_object).value
            if _HOLDER in values:
                yield values[_HOLDER]
        state = python.PyThreadState_Next(ctypes.c_void_p(state))
