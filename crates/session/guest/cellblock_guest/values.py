"""A value as something to look at: its repr, and a MIME bundle with whatever richer forms it offers."""

from __future__ import annotations

from . import BUILTINS as __builtins__
from . import plotting, reprs, tables, wire
from .libraries import is_a

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    Mime: TypeAlias = dict[str, Any]  # text, base64 for binary types, the structure itself for JSON types

BUNDLE_LIMIT = 16 << 20
CELL_LIMIT = 24 << 20
_MAX_VALUES = 50_000

# The forms that IPython knows, best first.
_METHODS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
    ("_repr_pdf_", "application/pdf"),
)
# What gives values their forms in place of the methods here: IPython's formatters, in sessions that have them.
formatter: Callable[[Any], Mime | None] | None = None
# Kinds that have no other form than their repr.
PLAIN_KINDS = frozenset((int, float, bool, str, bytes, complex, list, tuple, dict, set, frozenset, range, type, type(None)))


class Budget:
    """How many bytes of bundles one cell may still send. What is over it is replaced by a note."""

    def __init__(self, bundle_limit: int = BUNDLE_LIMIT) -> None:
        self._bundle_limit = min(bundle_limit, BUNDLE_LIMIT)
        self._left = CELL_LIMIT

    def admit(self, mime: Mime) -> Mime:
        limit = min(self._bundle_limit, self._left)
        sizes = {kind: _size(data) for kind, data in mime.items()}
        if sum(sizes.values()) > limit:
            mime = _smaller(mime, sizes, limit)
            sizes = {kind: _size(data) for kind, data in mime.items()}
        self._left -= sum(sizes.values())
        return mime


def result(value: Any, budget: Budget) -> dict[str, Any]:
    """The `value` of a cell."""
    text = reprs.full(value)
    if formatter is None and type(value) in PLAIN_KINDS:
        return {"repr": text}
    return {"repr": text, "mime": budget.admit(bundle(value, text))}


def bundle(value: Any, text: str | None = None) -> Mime:
    """All forms of a value that it offers without failing; `text/plain` is always among them."""
    forms = formatter(value) if formatter is not None else None
    if is_a(value, "matplotlib.figure", "Figure"):
        # A format that the code chose (`%config InlineBackend.figure_format`), or ours.
        return forms if forms is not None and len(forms) > 1 else plotting.bundle(value)
    if forms is not None:
        return forms
    mime: Mime = {"text/plain": reprs.full(value) if text is None else text}
    if type(value) in PLAIN_KINDS or isinstance(value, type):
        return mime
    table = tables.bundle(value)
    if table is not None:
        return {**mime, **table}
    for kind, data in _offered(value).items():
        if not (kind == "image/jpeg" and "image/png" in mime):  # an image that offers both is the same image twice
            mime[kind] = data
    return mime


def shows_itself(value: Any) -> bool:
    """Whether an object only knows how to display itself: then it is asked to, and nothing else is shown."""
    kind = type(value)
    return _has(kind, "_ipython_display_") and not any(_has(kind, name) for name in ("_repr_mimebundle_", "_repr_html_"))


def _offered(value: Any) -> Mime:
    kind = type(value)
    mime: Mime = {}
    if _has(kind, "_repr_mimebundle_"):
        offered = _attempt(value, "_repr_mimebundle_")
        if isinstance(offered, tuple) and offered:
            offered = offered[0]
        if isinstance(offered, dict):
            for name, data in offered.items():
                form = content(data)
                if type(name) is str and form is not None:
                    mime[name] = form
    for method, name in _METHODS:
        if name not in mime and _has(kind, method):
            data = _attempt(value, method)
            if isinstance(data, tuple) and data:  # (data, metadata)
                data = data[0]
            form = content(data)
            if form is not None:
                mime[name] = form
    return mime


def _has(kind: type, method: str) -> bool:
    # Looked up on the class: objects with a catch-all `__getattr__` would claim to have every form.
    return callable(getattr(kind, method, None))


def _attempt(value: Any, method: str) -> Any:
    try:
        return getattr(value, method)()
    except Exception:
        return None


def content(data: Any) -> Any:
    """One form of a bundle as it is sent: text, base64, or JSON data; `None` where it cannot be."""
    if isinstance(data, str):
        return str(data)
    if isinstance(data, (bytes, bytearray, memoryview)):
        return wire.as_base64(data)
    try:
        return wire.plain(data)
    except Exception:
        return None


def _size(data: Any) -> int:
    if isinstance(data, str):
        return len(data)
    # A structure of very many small values counts as too large: the host would refuse the frame.
    return len(wire.dumps(data)) if wire.count(data) < _MAX_VALUES else BUNDLE_LIMIT + 1


def _smaller(mime: Mime, sizes: dict[str, int], limit: int) -> Mime:
    """The forms that fit, smallest first, and in the text what was left out."""
    kept: Mime = {}
    notes: list[str] = []
    room = limit - 1000
    for kind in sorted(mime, key=lambda kind: sizes[kind]):
        if sizes[kind] <= room:
            kept[kind] = mime[kind]
            room -= sizes[kind]
        else:
            notes.append(f"[{kind} left out: too large for a display, the limit is {limit} bytes]")
    text = [kept["text/plain"]] if "text/plain" in kept else []
    return {**kept, "text/plain": "\n".join([*text, *notes])}
