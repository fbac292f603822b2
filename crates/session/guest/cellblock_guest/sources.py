"""The source of every cell, kept so that a traceback can show a line of any of them."""

from __future__ import annotations

from . import BUILTINS as __builtins__
from . import hooks
from .libraries import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_CHARACTERS = 32 << 20


class Sources:
    """Source text by file name, the oldest forgotten when there is too much of it."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._size = 0
        self._last: tuple[str, list[str]] = ("", [])
        hooks.after_import("linecache", self._fill_linecache)

    def add(self, filename: str, text: str) -> None:
        self._texts[filename] = text
        self._last = ("", [])
        self._size += len(text)
        while self._size > _MAX_CHARACTERS and len(self._texts) > 1:
            oldest = next(iter(self._texts))
            self._size -= len(self._texts.pop(oldest))
        linecache: Any = modules.get("linecache")
        if linecache is not None:
            linecache.cache[filename] = _entry(filename, text)

    def remove(self, filename: str) -> None:
        self._size -= len(self._texts.pop(filename, ""))
        linecache: Any = modules.get("linecache")
        if linecache is not None:
            linecache.cache.pop(filename, None)

    def holds(self, filename: str) -> bool:
        """Whether this is the name of a cell or of a script."""
        return filename in self._texts

    def line(self, filename: str, number: int) -> str:
        """One line without its newline; empty where there is none."""
        if self._last[0] != filename:
            text = self._texts.get(filename)
            self._last = filename, _file_lines(filename) if text is None else _lines(text)
        lines = self._last[1]
        return lines[number - 1].rstrip("\n") if 0 < number <= len(lines) else ""

    def _fill_linecache(self) -> None:
        for filename, text in self._texts.items():
            modules["linecache"].cache[filename] = _entry(filename, text)


def _entry(filename: str, text: str) -> tuple[int, None, list[str], str]:
    # Without a time of change, `linecache.checkcache` leaves the entry alone.
    return len(text), None, _lines(text), filename


def _lines(text: str) -> list[str]:
    # Not `splitlines`: it also splits at characters that are no line ends for Python.
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return [line + "\n" for line in text.split("\n")]


def _file_lines(filename: str) -> list[str]:
    if filename[:1] == "<":
        return []
    try:
        with open(filename, encoding="utf-8", errors="replace") as file:
            return _lines(file.read(4 << 20))
    except (OSError, ValueError):
        return []
