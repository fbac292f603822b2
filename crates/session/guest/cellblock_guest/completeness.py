"""Whether source text can be run as it is, or needs more lines: what a console asks when Enter is pressed."""

from __future__ import annotations

import sys
from _ast import PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST

from . import BUILTINS as __builtins__
from .programs import is_command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ALLOW_INCOMPLETE_INPUT = 0x4000
_DONT_IMPLY_DEDENT = 0x200
_FLAGS = PyCF_ONLY_AST | PyCF_ALLOW_TOP_LEVEL_AWAIT | _DONT_IMPLY_DEDENT
_STEP = "    "


def judge(code: str) -> dict[str, Any]:
    """The answer to `is_complete`: `status` is `complete`, `incomplete` or `invalid`; `indent` is that of the next line."""
    status = _status(code)
    return {"status": status, "indent": _next_indent(code) if status == "incomplete" else ""}


def _status(code: str) -> str:
    if is_command_line(code):
        return "complete"
    if code.rstrip(" \t").endswith("\\"):
        return "incomplete"
    error = _syntax_error(code)
    if error is not None:
        return "incomplete" if _is_incomplete(code, error) else "invalid"
    lines = code.split("\n")
    # A block that could go on ends with an empty line.
    is_in_block = len(lines[-1]) > len(lines[-1].lstrip()) or _is_decorated_or_compound(code)
    return "incomplete" if lines[-1].strip() and is_in_block else "complete"


def _is_decorated_or_compound(code: str) -> bool:
    """Whether the last statement is a compound one on a single line, such as `if x: y`, which `else:` may follow."""
    last = code.rstrip().rpartition("\n")[2]
    return last[:1].isalpha() and last.split(None, 1)[0] in ("if", "for", "while", "with", "try:", "class", "def", "async")


def _syntax_error(code: str) -> BaseException | None:
    flags = _FLAGS | (_ALLOW_INCOMPLETE_INPUT if sys.version_info >= (3, 11) else 0)
    # With a line end, so that `def f():` is told from a function whose body is wrong.
    return _attempt(code + "\n", flags)


def _attempt(code: str, flags: int) -> BaseException | None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(code, "<question>", "exec", flags, True)
        except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError) as error:
            return error
    return None


def _is_incomplete(code: str, error: BaseException) -> bool:
    if type(error).__name__ == "_IncompleteInputError" or "incomplete input" in str(error):
        return True
    if sys.version_info >= (3, 11) or not isinstance(error, SyntaxError):
        return False
    # Python 3.10: where more lines change the error, the text was not at its end.
    return repr(_attempt(code + "\n", _FLAGS)) != repr(_attempt(code + "\n\n", _FLAGS)) or "EOF" in str(error)


def _next_indent(code: str) -> str:
    lines = code.rstrip("\n").split("\n")
    last = lines[-1]
    indent = last[: len(last) - len(last.lstrip())]
    text = last.partition("#")[0].rstrip()
    return indent + _STEP if text.endswith(":") else indent
