"""`read_output()`: what an earlier cell wrote, by pages. The host keeps it, also what was too long for the result."""

from __future__ import annotations

from . import BUILTINS as __builtins__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .channel import Channel

_PAGE = 65536
_STREAMS = ("output", "stdout", "stderr")


def reader(channel: Channel) -> Callable[..., str]:
    """The `read_output` that cells call."""

    def read_output(cell: int, stream: str = "output", offset: int = 0, length: int = _PAGE) -> str:
        """Return a page of what cell number `cell` wrote.

        `stream` is "stdout", "stderr" or "output" (both in order); `offset` and `length` are in bytes. An empty text means
        that nothing follows.
        """
        if stream not in _STREAMS:
            raise ValueError(f"stream must be one of {', '.join(_STREAMS)}, not {stream!r}")
        cell, offset, length = int(cell), int(offset), int(length)
        if min(cell, offset, length) < 0:
            raise ValueError("cell, offset and length must not be negative")
        request = {"t": "output_request", "cell": cell, "stream": stream, "offset": offset, "length": length}
        answer = channel.ask(request)
        if "error" in answer:
            raise LookupError(answer["error"])
        page: str = answer["result"]
        return page

    read_output.__module__ = "builtins"
    read_output.__qualname__ = "read_output"
    return read_output
