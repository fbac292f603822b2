"""`input()`: a question to the host."""

from __future__ import annotations

import sys

from . import BUILTINS, hooks
from . import BUILTINS as __builtins__
from .libraries import modules

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
        hooks.after_import("getpass", self._replace_getpass)

    def ask(self, prompt: str, **options: Any) -> str:
        """The host's answer, without a newline. Raises `EOFError` with the host's reason where there is none."""
        if self.streams is not None:
            self.streams.flush()
        answer = self._channel.ask({"t": "input_request", "prompt": prompt, **options})
        text = answer.get("text")
        if not isinstance(text, str):
            raise EOFError(answer.get("error") or _NOBODY)
        return text.removesuffix("\n")

    def _replace_getpass(self) -> None:
        """`getpass.getpass()` asks the host too: there is no terminal whose echo could be turned off."""

        def getpass(prompt: str = "Password: ", stream: Any = None, **_options: Any) -> str:
            """Prompt for a password. The host asks for it without showing what is typed."""
            return self.ask(str(prompt), password=True)

        getpass.__module__ = "getpass"
        getpass.__qualname__ = "getpass"
        vars(modules["getpass"])["getpass"] = getpass

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
