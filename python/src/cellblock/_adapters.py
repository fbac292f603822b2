"""What the adapters to frameworks have in common."""

from __future__ import annotations

from typing import Any

from .session import Session

#: How much text of a result a model is given.
MAX_TEXT = 30_000

#: What a model is told about the tool.
RUN_PYTHON = (
    "Run Python code in a sealed interpreter that remembers: variables, imports and functions stay for the next call. "
    "The result has what the code printed and the value of its last expression, or the traceback. "
    "A call that crashes or takes too long changes nothing."
)


def session_from(session: Session | None, options: dict[str, Any]) -> Session:
    """The session that was given, or a new one with these options."""
    if session is None:
        return Session(**options)
    if options:
        raise TypeError("give a session, or options for a new one, not both")
    return session
