"""What a cell did to the session's variables, found without touching them and without keeping them alive."""

from __future__ import annotations

from _weakref import ref

from . import BUILTINS as __builtins__
from .fingerprints import fingerprint
from .libraries import kind_of
from .summaries import describe, size_in_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Changes: TypeAlias = dict[str, list[dict[str, Any]]]

# More than this many entries in one list are counted, not named.
MAX_LISTED = 1000
# Values of these types are kept for comparison as long as they are small. They hold no memory to speak of.
_ATOMS = frozenset((int, float, bool, complex, str, bytes, type(None)))
_SMALL = 4096
_MISSING = object()
_weakref_offset = type.__dict__["__weakrefoffset__"].__get__


class Variables:
    """The namespace as it was after the last cell, and how it differs now."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._seen: dict[str, Any] = {}
        self.hidden: dict[str, Any] = {}  # names that are not the code's own, such as IPython's `In`

    def changes(self) -> Changes:
        """What was added, changed and removed since the last look; nothing at all where nothing was."""
        try:
            return self._compare()
        except Exception:  # a namespace with keys that are not text, or that a thread changes under our hands
            self._seen = {}
            return {}

    def forget_changes(self) -> None:
        """Take the namespace as it is now for the last look: after seeding and clearing."""
        # A value that is known as itself is never compared.
        self._seen = dict(self.hidden)
        self.changes()

    def listing(self) -> list[dict[str, Any]]:
        public = self.public()
        entries = [{**describe(name, value), "bytes": size_in_bytes(value)} for name, value in public[: 10 * MAX_LISTED]]
        return _listed(entries, len(public))

    def public(self) -> list[tuple[str, Any]]:
        items = list(self._namespace.items())
        public = [(name, value) for name, value in items if type(name) is str and name[:1] != "_"]
        if not self.hidden:
            return public
        return [(name, value) for name, value in public if self.hidden.get(name, _MISSING) is not value]

    def _compare(self) -> Changes:
        seen = self._seen
        get = seen.get
        added: list[tuple[str, Any]] = []
        changed: list[tuple[str, Any]] = []
        known = 0
        for name, value in list(self._namespace.items()):
            old = get(name, _MISSING)
            if old is value:
                known += 1
                continue
            if type(name) is not str or name[:1] == "_":
                continue
            if old is _MISSING:
                added.append((name, value))
            else:
                known += 1
                if _is_unchanged(old, value):
                    continue
                changed.append((name, value))
            seen[name] = _remember(value)
        removed: list[tuple[str, Any]] = []
        if known + len(added) != len(seen):
            removed = [(name, seen.pop(name)) for name in list(seen) if name not in self._namespace]
        if not (added or changed or removed):
            return {}
        return {
            "added": _listed([self._describe(name, value) for name, value in added[:MAX_LISTED]], len(added)),
            "changed": _listed([self._describe(name, value) for name, value in changed[:MAX_LISTED]], len(changed)),
            "removed": _listed([_gone(name, old) for name, old in removed[:MAX_LISTED]], len(removed)),
        }

    def _describe(self, name: str, value: Any) -> dict[str, str]:
        description = describe(name, value)
        trace = self._seen[name]
        if type(trace) is _Trace:
            trace.description = description
        return description


def _remember(value: Any) -> Any:
    """The value itself if it is a small constant; else a `_Trace`, which does not keep it alive."""
    kind = type(value)
    if kind in _ATOMS:
        if kind is int:
            if value.bit_length() < 8 * _SMALL:
                return value
        elif kind not in (str, bytes) or len(value) < _SMALL:
            return value
    return _Trace(value, kind)


def _is_unchanged(old: Any, value: Any) -> bool:
    if type(old) is _Trace:
        return old.id == id(value) and (old.ref is None or old.ref() is value) and old.content == _content(value)
    # A small constant is held by us, so nothing else can have its address; an equal one is as good.
    return type(old) is type(value) and bool(old == value)


def _content(value: Any) -> Any:
    try:
        return fingerprint(value)
    except Exception:  # a library that does not behave as its known version does
        return None


class _Trace:
    """Which object it was, and what could be seen of its content."""

    __slots__ = ("content", "description", "id", "ref")

    def __init__(self, value: Any, kind: type) -> None:
        self.id = id(value)
        self.description: dict[str, str] | None = None
        self.ref: Any = None
        # An address is used again once an object is gone; a weak reference tells. Not for numpy arrays: one that is
        # referred to refuses to be resized. Their content tells.
        array = kind_of("numpy", "ndarray")
        if _weakref_offset(kind) and not (array is not None and issubclass(kind, array)):
            self.ref = ref(value)
        self.content = _content(value)


def _gone(name: str, old: Any) -> dict[str, Any]:
    """A variable that is no more, as it was when it last changed."""
    if type(old) is _Trace:
        return old.description or {"name": name, "type": "", "summary": ""}
    return describe(name, old)


def _listed(entries: list[dict[str, Any]], total: int) -> list[dict[str, Any]]:
    if total > len(entries):
        entries.append({"name": "…", "type": "", "summary": f"and {total - len(entries)} more", "bytes": 0})
    return entries
