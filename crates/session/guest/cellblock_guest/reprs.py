"""Text for values, bounded in size, whatever the value is.

`full` is for the value of a cell: it is `repr()`, except that it stops early in containers that are huge. `safe` is for looking
at values nobody asked to see (locals of a traceback, changes of variables): it runs no code of the user's.
"""

from __future__ import annotations

from . import BUILTINS as __builtins__
from .libraries import kind_of, name_of, package_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

FULL_LIMIT = 100_000
_MAX_DEPTH = 60
_NOTE = 40  # what the quotes and the note on the whole length take
_SIMPLE = (int, float, bool, type(None), complex)
# Types whose `repr` is the library's own, short, and free of effects.
_TRUSTED = (
    ("datetime", "datetime"),
    ("datetime", "date"),
    ("datetime", "time"),
    ("datetime", "timedelta"),
    ("datetime", "timezone"),
    ("decimal", "Decimal"),
    ("fractions", "Fraction"),
    ("pathlib", "PosixPath"),
    ("pathlib", "PurePosixPath"),
    ("uuid", "UUID"),
    ("pandas", "Timestamp"),
    ("pandas", "Timedelta"),
    ("numpy", "float64"),
    ("numpy", "float32"),
    ("numpy", "int64"),
    ("numpy", "int32"),
    ("numpy", "bool_"),
    ("numpy", "str_"),
)
_TRUSTED_PACKAGES = frozenset(module for module, _ in _TRUSTED)


def full(value: Any, limit: int = FULL_LIMIT) -> str:
    """`repr(value)`, at most `limit` characters of it. An exception in it becomes text; an interrupt does not."""
    if type(value) is str and len(value) < 1000:
        return repr(value)
    return _Walk(limit, _user_repr).text(value)


def safe(value: Any, limit: int) -> str:
    """Like `full`, but objects other than those of well-known types are only named."""
    return _Walk(limit, _named).text(value)


def cut(text: str, limit: int) -> str:
    """At most `limit` characters of a text, and how many more there were."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit} more characters)"


def shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def type_name(kind: type) -> str:
    name = name_of(kind)
    return name if type(name) is str else "object"


class _Full(Exception):
    """The limit is reached."""


class _Walk:
    """Writes the repr of builtin containers piece by piece, so that it can stop, and leaves all other values to `leaf`."""

    def __init__(self, limit: int, leaf: Callable[[Any, int], str]) -> None:
        self._left = limit
        self._limit = limit
        self._leaf = leaf
        self._pieces: list[str] = []
        self._open: set[int] = set()

    def text(self, value: Any) -> str:
        kind = type(value)
        if kind not in _CONTAINERS:
            return cut(self._atom(value, kind), self._limit)
        try:
            self._write(value)
        except _Full:
            text = "".join(self._pieces)[: self._limit]
            return f"{text}… (cut; {len(value)} items in all)" if self._limit > 1000 else f"{text}…"
        return "".join(self._pieces)

    def _put(self, text: str) -> None:
        self._pieces.append(text)
        self._left -= len(text)
        if self._left < 0:
            raise _Full

    def _write(self, value: Any) -> None:
        kind = type(value)
        if kind not in _CONTAINERS:
            self._put(self._atom(value, kind))
        elif id(value) in self._open or len(self._open) > _MAX_DEPTH:
            self._put("{...}" if kind is dict else "[...]" if kind is list else "(...)")
        else:
            self._open.add(id(value))
            self._container(value, kind)
            self._open.discard(id(value))

    def _container(self, value: Any, kind: type) -> None:
        if kind is dict:
            self._put("{")
            for index, (key, item) in enumerate(value.items()):
                if index:
                    self._put(", ")
                self._write(key)
                self._put(": ")
                self._write(item)
            self._put("}")
        elif kind is list:
            self._items("[", value, "]")
        elif kind is tuple:
            self._items("(", value, ",)" if len(value) == 1 else ")")
        elif not value:
            self._put("set()" if kind is set else "frozenset()")
        elif kind is set:
            self._items("{", value, "}")
        else:
            self._items("frozenset({", value, "})")

    def _items(self, opening: str, items: Iterable[Any], closing: str) -> None:
        self._put(opening)
        for index, item in enumerate(items):
            if index:
                self._put(", ")
            self._write(item)
        self._put(closing)

    def _atom(self, value: Any, kind: type) -> str:
        if kind is str or kind is bytes:
            if len(value) > self._left:
                return f"{value[: max(self._left - _NOTE, 0)]!r}… ({len(value)} in all)"
            return repr(value)
        if kind is int and value.bit_length() > 14_000:  # Python refuses to write numbers beyond 4300 digits
            return f"<int of about {int(value.bit_length() * 0.30103) + 1} digits>"
        if kind in _SIMPLE:
            return repr(value)
        return self._leaf(value, max(self._left, 0))


_arguments = BaseException.__dict__["args"].__get__
_CONTAINERS = (list, tuple, dict, set, frozenset)


def _user_repr(value: Any, limit: int) -> str:
    """Run the value's own `__repr__`, which may do anything."""
    try:
        text = repr(value)
        return cut(text if type(text) is str else str(text), limit)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        return f"<unrepresentable {type_name(type(value))}: {_brief(error)}>"


def _brief(error: BaseException) -> str:
    try:
        return cut(repr(error), 200)
    except Exception:
        return type_name(type(error))


def _named(value: Any, limit: int) -> str:
    kind = type(value)
    if kind is range or kind is slice or value is Ellipsis or (kind is bytearray and len(value) < 200):
        return repr(value)
    if package_of(kind) in _TRUSTED_PACKAGES and any(kind is kind_of(module, name) for module, name in _TRUSTED):
        return shorten(repr(value), max(limit, 1))
    if kind is type:
        return f"<class {type_name(value)}>"
    if issubclass(kind, BaseException):
        arguments = safe(_arguments(value), limit)
        return type_name(kind) + (f"({arguments[1:-2]})" if arguments.endswith(",)") else arguments)
    return f"<{type_name(kind)}>"
