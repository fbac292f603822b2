"""`input()`: a question to the host."""

from __future__ import annotations

import sys

from . import BUILTINS
from . import BUILTINS as __builtins__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .channel import Channel
    from .streams import Streams

_NOBODY = "no one can answer input() in this session"


class Prompts:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.streams: Streams | None = None

    def ask(self, prompt: str) -> str:
        """The host's answer, without a newline. Raises `EOFError` with the host's reason where there is none."""
        if self.streams is not None:
            self.streams.flush()
        answer = self._channel.ask({"t": "input_request", "prompt": prompt})
        text = answer.get("text")
        if not isinstance(text, str):
            raise EOFError(answer.get("error") or _NOBODY)
        return text.removesuffix("\n")

    def function(self) -> Callable[..., str]:
        """The `input` that cells call."""
        original = BUILTINS["input"]

        def input(prompt: Any = "", /) -> str:
            streams = self.streams
            # Where the code has deleted a stream, Python's own function says so.
            has_all = all(getattr(sys, name, None) is not None for name in ("stdin", "stdout", "stderr"))
            if streams is not None and not (has_all and sys.stdin is streams.stdin):
                text: str = original(prompt)  # the user reads from something of their own
                return text
            return self.ask(str(prompt))

        input.__doc__ = original.__doc__
        input.__module__ = "builtins"
        input.__qualname__ = "input"
        return input
