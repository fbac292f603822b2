"""Python values in JSON, with tags for what JSON cannot say: tuples, sets, bytes, NaN, big integers, other keys, tables.

Tools that are written in Python answer so, and code gets the value that the tool returned. A tag can only make plain data:
nothing is unpickled, and no class is looked up by name.
"""

from __future__ import annotations

from . import BUILTINS as __builtins__
from . import tagged_tables, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

TAG = "__python__"
# Integers that JSON readers keep exact.
_MAX_PLAIN_INTEGER = 2**53
_MAX_DEPTH = 100


def encode(value: Any, what: str, depth: int = 0, other: Callable[[Any, str], Any] = wire.plain) -> Any:
    """A value as JSON data with tags. `other` makes data of what has no tag, or raises `TypeError`."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if abs(value) <= _MAX_PLAIN_INTEGER else {TAG: "int", "value": hex(value)}
    if kind is float:
        return value if wire.is_finite(value) else {TAG: "float", "value": repr(value)}
    if depth > _MAX_DEPTH:
        raise TypeError(f"{what}: nested deeper than {_MAX_DEPTH} levels, or contains itself")

    def inner(item: Any) -> Any:
        return encode(item, what, depth + 1, other)

    if kind is list:
        return [inner(item) for item in value]
    if kind in (tuple, set, frozenset):
        items = sorted(value, key=repr) if kind is not tuple else value
        return {TAG: kind.__name__, "value": [inner(item) for item in items]}
    if kind in (bytes, bytearray):
        return {TAG: kind.__name__, "value": wire.as_base64(value)}
    if kind is complex:
        return {TAG: "complex", "value": repr(value)}
    if kind is dict:
        if TAG not in value and all(type(key) is str for key in value):
            return {key: inner(item) for key, item in value.items()}
        return {TAG: "dict", "value": [[inner(key), inner(item)] for key, item in value.items()]}
    table = tagged_tables.encode(value, TAG, inner)
    return other(value, what) if table is None else table


def decode(value: Any) -> Any:
    """The value of JSON data with tags."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if TAG not in value:
        return {key: decode(item) for key, item in value.items()}
    try:
        return _decode_tag(value)
    except Exception:  # the data of another tool, which has this key by chance
        return value


def _decode_tag(value: dict[str, Any]) -> Any:
    tag, content = value[TAG], value.get("value")
    if tag == "int":
        return int(str(content), 16)
    if tag in ("float", "complex"):
        return (float if tag == "float" else complex)(str(content))
    if tag in ("bytes", "bytearray"):
        data = wire.from_base64(str(content))
        return data if tag == "bytes" else bytearray(data)
    if tag == "dict" and isinstance(content, list):
        return {decode(key): decode(item) for key, item in content}
    if tag in _KINDS and isinstance(content, list):
        return _KINDS[tag]([decode(item) for item in content])
    if tag in ("ndarray", "DataFrame", "Series"):
        return tagged_tables.decode(tag, value, decode)
    return value


_KINDS: dict[str, Any] = {"tuple": tuple, "set": set, "frozenset": frozenset}
