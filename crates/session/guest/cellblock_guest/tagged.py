"""Python values in JSON, with tags for what JSON cannot say: tuples, sets, bytes, NaN, big integers, other keys, tables.

Tools that are written in Python answer so, and code gets the value that the tool returned. A tag can only make plain data:
nothing is unpickled, and no class is looked up by name.
"""

from __future__ import annotations

from . import BUILTINS as __builtins__
from . import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TAG = "__python__"
# Integers that JSON readers keep exact.
_MAX_PLAIN_INTEGER = 2**53
_MAX_DEPTH = 100


def encode(value: Any, what: str, depth: int = 0) -> Any:
    """A value as JSON data with tags. Raises `TypeError` for what has no form."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if abs(value) <= _MAX_PLAIN_INTEGER else {TAG: "int", "value": hex(value)}
    if kind is float:
        return value if wire.is_finite(value) else {TAG: "float", "value": repr(value)}
    if depth > _MAX_DEPTH:
        raise TypeError(f"{what}: nested deeper than {_MAX_DEPTH} levels, or contains itself")
    if kind is list:
        return [encode(item, what, depth + 1) for item in value]
    if kind in (tuple, set, frozenset):
        items = sorted(value, key=repr) if kind is not tuple else value
        return {TAG: kind.__name__, "value": [encode(item, what, depth + 1) for item in items]}
    if kind in (bytes, bytearray):
        return {TAG: kind.__name__, "value": wire.as_base64(value)}
    if kind is complex:
        return {TAG: "complex", "value": repr(value)}
    if kind is dict:
        if TAG not in value and all(type(key) is str for key in value):
            return {key: encode(item, what, depth + 1) for key, item in value.items()}
        pairs = [[encode(key, what, depth + 1), encode(item, what, depth + 1)] for key, item in value.items()]
        return {TAG: "dict", "value": pairs}
    return wire.plain(value, what)


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
    if tag == "ndarray":
        return _array(value)
    if tag == "DataFrame":
        return _table(value)
    return value


_KINDS: dict[str, Any] = {"tuple": tuple, "set": set, "frozenset": frozenset}


def _array(value: dict[str, Any]) -> Any:
    import numpy

    data = wire.from_base64(str(value.get("value")))
    return numpy.frombuffer(data, dtype=str(value.get("dtype"))).reshape(value.get("shape")).copy()


def _table(value: dict[str, Any]) -> Any:
    import pandas  # type: ignore[import-untyped]

    columns = [decode(name) for name in value.get("columns") or []]
    content = [decode(item) for item in value.get("value") or []]
    table = pandas.DataFrame(dict(enumerate(content)), index=decode(value.get("index")))
    table.columns = columns
    for at, dtype in enumerate(value.get("dtypes") or []):
        name = table.columns[at]
        if str(table[name].dtype) != dtype:
            table[name] = table[name].astype(dtype)
    return table
