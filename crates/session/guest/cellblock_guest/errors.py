"""An exception as the user should see it: their own frames, the source line of each, and always the final line.

Written here and not left to `traceback`, because frames are chosen, everything is bounded (a recursion a thousand deep, a
message of ten megabytes, a chain of exceptions without end), and the module may have been patched.
"""

from __future__ import annotations

from . import BUILTINS, hints, reprs
from . import BUILTINS as __builtins__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any

    from .sources import Sources

_MESSAGE = 10_000
_TRACEBACK = 50_000
_LINE = 500
_FRAMES = 20
_CHAIN = 8
_GROUP = 15
_LOCALS = 20
_LOCAL = 100

_CAUSE = "\nThe above exception was the direct cause of the following exception:\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n"
_OURS = __file__.rpartition("/")[0] + "/"
_Function = type(reprs.safe)
_Module = type(hints)


def describe(error: BaseException, sources: Sources, workspace: str) -> dict[str, Any]:
    """The `error` of a result."""
    reporter = _Reporter(sources, workspace)
    description: dict[str, Any] = {
        "type": reprs.type_name(type(error)),
        "value": _message(error),
        "repr": _repr(error),
        "traceback": reporter.traceback(error),
        "frames": reporter.frames(error),
    }
    try:
        description.update(hints.hint(error, workspace))
    except Exception:  # a library that it wanted cannot be imported any more
        pass
    return description


def brief(error: BaseException) -> dict[str, Any]:
    """The least that can be said, for when saying more failed."""
    name = reprs.type_name(type(error))
    message = _message(error)
    line = f"{name}: {message}" if message else name
    return {"type": name, "value": message, "repr": f"{name}({message!r})", "traceback": line + "\n", "frames": []}


class _Reporter:
    def __init__(self, sources: Sources, workspace: str) -> None:
        self._sources = sources
        self._workspace = workspace.rstrip("/") + "/"

    def traceback(self, error: BaseException) -> str:
        text = "\n".join(self._chain(error)) + "\n"
        if len(text) > _TRACEBACK:
            half = _TRACEBACK // 2
            text = f"{text[:half]}\n… ({len(text) - 2 * half} characters left out)\n{text[-half:]}"
        return text

    def frames(self, error: BaseException) -> list[dict[str, Any]]:
        found = self._user_frames(error.__traceback__)
        if len(found) > _FRAMES:
            found = found[: _FRAMES // 2] + found[-_FRAMES // 2 :]
        frames = [self._frame(frame, line) for frame, line in found]
        if isinstance(error, SyntaxError) and not frames and error.filename and error.lineno:
            source = self._syntax_source(error).strip()
            frames.append({"file": error.filename, "line": error.lineno, "function": "<module>", "source": source, "locals": {}})
        return frames

    def _chain(self, error: BaseException) -> list[str]:
        """The exception and what led to it, the first cause first."""
        parts: list[tuple[BaseException, str]] = []
        seen: set[int] = set()
        link = ""
        current: BaseException | None = error
        while current is not None and id(current) not in seen:
            if len(parts) == _CHAIN:
                parts.append((current, "\n… earlier exceptions left out …\n"))
                break
            seen.add(id(current))
            parts.append((current, link))
            if current.__cause__ is not None:
                current, link = current.__cause__, _CAUSE
            elif current.__context__ is not None and not current.__suppress_context__:
                current, link = current.__context__, _CONTEXT
            else:
                break
        lines: list[str] = []
        for part, after in reversed(parts):
            lines += self._one(part)
            if after:
                lines += after.split("\n")
        return lines

    def _one(self, error: BaseException) -> list[str]:
        lines = self._stack(error.__traceback__)
        final = self._final(error)
        members = getattr(error, "exceptions", None) if _is_group(error) else None
        if not members:
            return ([_HEADER, *lines] if lines else []) + final
        # As Python draws it: a box for the group, with the members' boxes inside.
        text = ([_GROUP_HEADER] if lines else []) + ["  | " + line for line in [*lines, *final]]
        for index, member in enumerate(members[:_GROUP]):
            text.append(f"  {'+-' if index == 0 else '  '}+---------------- {index + 1} ----------------")
            margin = "  " if _is_group(member) else "    | "  # a group brings its own box
            text += [margin + line for line in self._chain(member)]
        if len(members) > _GROUP:
            text.append(f"    | … and {len(members) - _GROUP} more exceptions")
        text.append("    +------------------------------------")
        return text

    def _stack(self, traceback: TracebackType | None) -> list[str]:
        entries = [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in self._user_frames(traceback)]
        lines: list[str] = []
        index = 0
        shown = 0
        while index < len(entries):
            entry = entries[index]
            repeats = 1
            while index + repeats < len(entries) and entries[index + repeats] == entry:
                repeats += 1
            if shown == _FRAMES and len(entries) - index > _FRAMES:
                skipped = len(entries) - index - _FRAMES
                lines.append(f"  … {skipped} frames left out …")
                index += skipped
                shown += 1
                continue
            filename, number, function = entry
            source = _line(self._sources.line(filename, number))
            for _ in range(min(repeats, 3)):
                lines.append(f'  File "{filename}", line {number}, in {function}')
                if source:
                    lines.append(f"    {source}")
            if repeats > 3:
                lines.append(f"  [Previous line repeated {repeats - 3} more times]")
            index += repeats
            shown += 1
        return lines

    def _user_frames(self, traceback: TracebackType | None) -> list[tuple[FrameType, int]]:
        found: list[tuple[FrameType, int]] = []
        while traceback is not None:
            if self._is_users(traceback.tb_frame.f_code.co_filename):
                found.append((traceback.tb_frame, traceback.tb_lineno or 0))
            traceback = traceback.tb_next
        return found

    def _is_users(self, filename: str) -> bool:
        if filename.startswith("<cell ") or self._sources.holds(filename):
            return True
        return filename.startswith(self._workspace) and "/site-packages/" not in filename and not filename.startswith(_OURS)

    def _frame(self, frame: FrameType, line: int) -> dict[str, Any]:
        code = frame.f_code
        source = _line(self._sources.line(code.co_filename, line))
        # Of the variables of a session only those that the line names.
        wanted = _words(source) & set(code.co_names) if code.co_name == "<module>" else None
        return {
            "file": code.co_filename,
            "line": line,
            "function": code.co_name,
            "source": source,
            "locals": _locals(frame, wanted),
        }

    def _final(self, error: BaseException) -> list[str]:
        """The last line of a traceback, with what belongs to it: the place of a syntax error before, notes after."""
        lines: list[str] = []
        message = _message(error)
        if isinstance(error, SyntaxError):
            message = reprs.cut(str(error.msg or "<no detail available>"), _MESSAGE)
            lines += self._syntax_place(error)
        lines.append(f"{_qualified_name(error)}: {message}" if message else _qualified_name(error))
        notes = getattr(error, "__notes__", None)
        if isinstance(notes, (list, tuple)):
            for note in notes[:20]:
                lines += reprs.cut(note if isinstance(note, str) else reprs.safe(note, _LOCAL), _MESSAGE).split("\n")
        return lines

    def _syntax_place(self, error: SyntaxError) -> list[str]:
        if error.lineno is None:
            return []
        lines = [f'  File "{error.filename or "<string>"}", line {error.lineno}']
        source = self._syntax_source(error)
        text = source.lstrip()
        if text.strip() and len(text) <= _LINE:
            lines.append(f"    {text}")
            if error.offset and error.offset > 0:
                start = error.offset - 1 - (len(source) - len(text))
                end = getattr(error, "end_offset", None) or 0
                same_line = getattr(error, "end_lineno", error.lineno) in (None, error.lineno)
                width = end - error.offset if same_line and end > error.offset else 1
                if 0 <= start <= len(text):
                    lines.append("    " + " " * start + "^" * max(1, min(width, len(text) - start)))
        return lines

    def _syntax_source(self, error: SyntaxError) -> str:
        text = self._sources.line(error.filename or "", error.lineno or 0) or error.text or ""
        return text.rstrip("\n") if isinstance(text, str) else ""


_HEADER = "Traceback (most recent call last):"
_GROUP_HEADER = "  + Exception Group Traceback (most recent call last):"


def _is_group(error: BaseException) -> bool:
    group = BUILTINS.get("BaseExceptionGroup")  # since 3.11
    return group is not None and isinstance(error, group)


def _message(error: BaseException) -> str:
    try:
        return reprs.cut(str(error), _MESSAGE)
    except Exception:
        return "<exception str() failed>"


def _repr(error: BaseException) -> str:
    try:
        return reprs.cut(repr(error), _MESSAGE)
    except Exception:
        return f"<unrepresentable {reprs.type_name(type(error))}>"


def _qualified_name(error: BaseException) -> str:
    kind = type(error)
    module = kind.__module__
    name = kind.__qualname__
    return name if module in ("__main__", "builtins") or not isinstance(module, str) else f"{module}.{name}"


def _line(text: str) -> str:
    return reprs.cut(text.strip(), _LINE)


def _words(text: str) -> set[str]:
    return set("".join([letter if letter.isalnum() or letter == "_" else " " for letter in text]).split())


def _locals(frame: FrameType, wanted: set[str] | None) -> dict[str, str]:
    """Short texts of a frame's local values; without code of the user's, and without what is no data."""
    shown: dict[str, str] = {}
    try:
        for name, value in list(frame.f_locals.items()):
            if len(shown) == _LOCALS:
                break
            if name[:1] == "_" or not name.isidentifier() or (wanted is not None and name not in wanted):
                continue
            if not issubclass(type(value), (type, _Module, _Function)):
                shown[name] = reprs.shorten(reprs.safe(value, _LOCAL), _LOCAL)
    except Exception:
        pass
    return shown
