"""The `stdout` of C, which libraries print to. Into a pipe it would hold everything back until the process ends."""

from __future__ import annotations

import ctypes

from . import BUILTINS as __builtins__

_LINE_BUFFERED = 1

_libc = ctypes.CDLL(None)
_flush = _libc.fflush
_flush.argtypes = [ctypes.c_void_p]


def pass_on_lines() -> None:
    """From now on each line goes out when it is complete."""
    try:
        stdout = ctypes.c_void_p.in_dll(_libc, "stdout")
    except ValueError:  # a C library that calls it something else
        return
    _libc.setvbuf.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t]
    _libc.setvbuf(stdout, None, _LINE_BUFFERED, 0)


def flush() -> None:
    """Pass on what is there of an incomplete line."""
    _flush(None)
