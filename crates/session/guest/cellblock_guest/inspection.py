"""A closer look at one variable, for the `inspect` request."""

from __future__ import annotations

from . import BUILTINS as __builtins__
from . import reprs, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DOC = 10_000


def look(namespace: dict[str, Any], name: str) -> dict[str, Any]:
    """Type, repr, documentation and MIME bundle of `name`, which may be dotted. Raises `LookupError` with a message."""
    first, *attributes = name.split(".")
    if first not in namespace:
        raise LookupError(f"there is no variable {first!r} in this session")
    value = namespace[first]
    for attribute in attributes:
        try:
            value = getattr(value, attribute)
        except Exception as error:
            raise LookupError(f"{name!r} cannot be read: {type(error).__name__}: {error}") from None
    result = values.result(value, values.Budget())
    return {"type": reprs.type_name(type(value)), "doc": _documentation(value), **result}


def _documentation(value: Any) -> str:
    """The docstring of a function, class or module, or of the class of an object that is of no builtin type."""
    import inspect

    if type(value).__module__ == "builtins" and not callable(value) and not inspect.ismodule(value):
        return ""
    try:
        return reprs.cut(inspect.getdoc(value) or "", _DOC)
    except Exception:
        return ""
