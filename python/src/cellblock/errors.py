"""The exceptions of the package.

Code that fails in a session raises none of these: a failing cell is a `Result` whose `status` says so. They are raised
when a request itself cannot be done, and by the two methods that promise a value, `Result.value()` and `Result.check()`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .result import Result


class CellblockError(Exception):
    """A request could not be done. `code` is a short word for programs, the message is for people."""

    def __init__(self, message: str, code: str = "error") -> None:
        super().__init__(message)
        self.code = code


class Refused(CellblockError):
    """The request is wrong or cannot be fulfilled: a bad option, no such variable, no such file, walls that cannot be built."""


class Busy(CellblockError):
    """The session waits for the answer of a tool or of `input()`, and this cannot be done meanwhile."""


class Ended(CellblockError):
    """The session is over, or the process that held it is gone. The message says why. Open a new `Session`."""


class Unsupported(CellblockError):
    """This version of Cellblock cannot do it, or cannot do it on this system."""


class BinaryError(CellblockError):
    """The program `cellblock` is missing, too old, or does not start. The message says what to do."""


class CellFailed(CellblockError):
    """A cell was expected to succeed and did not. `result` has everything about it."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.failure_text(), code=result.status)
        self.result = result


class WrongValue(CellblockError):
    """A value of the session is not of the type that was asked for, or cannot cross as data."""


class AgentFailed(CellblockError):
    """A run of an agent gave no answer. `outcome` says how it ended and what was reached."""

    def __init__(self, message: str, outcome: object) -> None:
        super().__init__(message, code="agent")
        self.outcome = outcome


_BY_CODE: dict[str, type[CellblockError]] = {
    "busy": Busy,
    "ended": Ended,
    "unsupported": Unsupported,
    "unknown_op": Unsupported,
    "python": BinaryError,
}


def error_from(code: str, message: str) -> CellblockError:
    """The exception for an `error` event."""
    return _BY_CODE.get(code, Refused)(message, code)
