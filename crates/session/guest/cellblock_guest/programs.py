"""From a cell's source to a code object: the value of the last expression, `await` at the top, and lines meant for IPython."""

from __future__ import annotations
import __future__

import builtins
from _ast import Assign, Expr, Name, PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST, Store

from . import BUILTINS as __builtins__
from .hints import how_to_install, note_wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

# Where a cell leaves the value of its last expression. It is taken out again before anyone can look.
VALUE = "__cellblock_value__"

# Beyond this, Python's syntax tree as objects would take a multiple of the memory that compiling takes.
_LARGE = 1 << 20
_FUTURE = __future__.annotations.compiler_flag


class Compiler:
    """Compiles the cells of one session. A `from __future__` in one cell holds for those after it, as in a REPL."""

    def __init__(self) -> None:
        self._flags = PyCF_ALLOW_TOP_LEVEL_AWAIT

    def compile(self, source: str, filename: str) -> CodeType:
        """Raises `SyntaxError`, or what the parser ran out of; nothing has been run then."""
        try:
            try:
                code = self._compile(source, filename)
            except SyntaxError as error:
                meant = _as_python(source, error)
                if meant is None:
                    raise
                code = self._compile(meant, filename)
        except SyntaxError as error:
            error.__context__ = None  # the first attempt is not worth telling
            raise
        except (ValueError, UnicodeError) as error:  # null bytes before 3.12, lone surrogates
            raise SyntaxError(f"the source cannot be read: {error}", (filename, 1, 1, None)) from None
        except MemoryError:  # what the parser says when its stack is full
            raise SyntaxError("the source is nested too deeply, or too large", (filename, 1, 1, None)) from None
        self._flags |= code.co_flags & _FUTURE
        return code

    def _compile(self, source: str, filename: str) -> CodeType:
        if "\n" not in source and "=" not in source and "\\" not in source:  # an expression, in half of the time
            try:
                return self._code(source, filename, "eval")
            except SyntaxError:
                pass  # a statement, or wrong
        if len(source) > _LARGE:
            return self._compile_large(source, filename)
        tree: Any = compile(source, filename, "exec", self._flags | PyCF_ONLY_AST, True)
        if tree.body and type(tree.body[-1]) is Expr:
            tree.body[-1] = _assignment(tree.body[-1])
        return self._code(tree, filename, "exec")

    def _compile_large(self, source: str, filename: str) -> CodeType:
        """Without a tree: the value is assigned in the text, if the last line is an expression by itself."""
        text = source.rstrip()
        start = text.rfind("\n") + 1
        above, last = text[:start], text[start:]
        if not above.endswith("\\\n"):
            try:
                self._code(last, filename, "eval")
                return self._code(f"{above}{VALUE} = ({last}\n)", filename, "exec")
            except SyntaxError:
                pass  # no expression, or the end of one that began above
        return self._code(source, filename, "exec")

    def _code(self, source: Any, filename: str, mode: str) -> CodeType:
        code: CodeType = compile(source, filename, mode, self._flags, True)
        return code


def _assignment(expression: Any) -> Assign:
    place = {
        "lineno": expression.lineno,
        "col_offset": expression.col_offset,
        "end_lineno": expression.end_lineno,
        "end_col_offset": expression.end_col_offset,
    }
    return Assign(targets=[Name(id=VALUE, ctx=Store(), **place)], value=expression.value, **place)


def _as_python(source: str, error: SyntaxError) -> str | None:
    """The source without what a notebook allows beyond Python; None if that was not the fault.

    `%matplotlib` is dropped, an indented snippet is moved to the margin. For other commands the error says what to do instead.
    """
    lines = source.split("\n")
    if isinstance(error, IndentationError) and "unexpected indent" in str(error.msg):
        return _dedented(lines)
    number = (error.lineno or 1) - 1
    line = lines[number].strip() if number < len(lines) else ""
    if line.startswith("%matplotlib"):
        return "\n".join([_without_matplotlib_magic(text) for text in lines])
    if line[:1] in ("!", "%"):
        if is_install(line[1:].split()) and "install_packages" in vars(builtins):
            return "\n".join([_with_install_called(text) for text in lines])
        _explain_command(line, error)
    return None


def is_command_line(source: str) -> bool:
    """Whether the whole source is one line that a notebook takes for a command, such as `%matplotlib inline`."""
    return "\n" not in source.strip() and source.lstrip()[:1] in ("!", "%")


def _dedented(lines: list[str]) -> str | None:
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip() and not line.lstrip().startswith("#")]
    margin = min(indents, default=0)
    if not margin:
        return None
    return "\n".join([line[min(margin, len(line) - len(line.lstrip())) :] for line in lines])


def _without_matplotlib_magic(line: str) -> str:
    text = line.lstrip()
    return line[: len(line) - len(text)] + "pass" if text.startswith("%matplotlib") else line


def _with_install_called(line: str) -> str:
    """`%pip install x` and `!pip install x` as a call of the host's tool, where the host offers it."""
    text = line.strip()
    if text[:1] not in ("!", "%") or not is_install(text[1:].split()):
        return line
    margin = line[: len(line) - len(line.lstrip())]
    return f"{margin}print(install_packages(packages={packages_of(text[1:].split())!r}))"


def packages_of(words: list[str]) -> list[str]:
    """What an install command names: the words after `install` or `add` that are no options."""
    start = next((place for place, word in enumerate(words) if word in ("install", "add")), -1)
    return [word.strip("'\"") for word in words[start + 1 :] if not word.startswith("-")]


def wanted_packages(words: list[str]) -> list[str]:
    """What an install command names, if these are packages of Python."""
    return [] if words[:1] in (["apt"], ["apt-get"]) else packages_of(words)


def _explain_command(line: str, error: SyntaxError) -> None:
    command = line.lstrip("!%").strip()
    message = f"{line.split()[0]!r} is a command of IPython; this is plain Python"
    if is_install(command.split()):
        message = how_to_install()
        note_wanted(error, wanted_packages(command.split()))
    elif line.startswith("!"):
        message = (
            "shell commands do not start with '!' here, this is plain Python; use "
            f"subprocess.run({command!r}, shell=True, capture_output=True, text=True)"
        )
    error.msg = message
    error.args = (message, *error.args[1:])


def is_install(words: list[str]) -> bool:
    """Whether a command line installs packages: `pip install x`, `python -m pip install x`, `uv add x`, `conda install x`."""
    words = [word.rpartition("/")[2] for word in words]
    if len(words) > 2 and words[0].startswith("python") and words[1] == "-m":
        words = words[2:]
    if len(words) < 2:
        return False
    if words[0] == "uv" and words[1] == "pip":
        words = words[1:]
    installers = ("pip", "pip3", "uv", "conda", "mamba", "poetry", "easy_install", "pipx", "apt", "apt-get")
    return words[0] in installers and any(word in ("install", "add") for word in words[1:3])
