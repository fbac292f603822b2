"""Arrays of NumPy and tables of pandas as JSON data with tags, for `tagged`."""

from __future__ import annotations

from . import BUILTINS as __builtins__
from . import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Encode = Callable[[Any], Any]
    Decode = Callable[[Any], Any]

# Kinds of NumPy's types whose bytes are the whole value.
_FIXED_KINDS = "biufcmMSU"


def encode(value: Any, tag: str, encode_item: Encode) -> dict[str, Any] | None:
    """An array or a table; `None` for anything else."""
    kind = type(value)
    module = str(kind.__module__).partition(".")[0]
    if module == "numpy" and kind.__name__ == "ndarray":
        return {tag: "ndarray", **_array(value, encode_item)}
    if module != "pandas":
        return None
    if kind.__name__ == "DataFrame":
        columns = [_column(value.iloc[:, at], encode_item) for at in range(value.shape[1])]
        index, names = _index(value.index, encode_item), _index(value.columns, encode_item)
        return {tag: "DataFrame", "columns": names, "index": index, "value": columns}
    if kind.__name__ == "Series":
        name, column = encode_item(value.name), _column(value, encode_item)
        return {tag: "Series", "name": name, "index": _index(value.index, encode_item), "value": column}
    return None


def decode(tag: str, value: dict[str, Any], decode_item: Decode) -> Any:
    """The array or the table of data that `encode` made."""
    if tag == "ndarray":
        return _to_array(value, decode_item)
    import pandas  # type: ignore[import-untyped]

    index = _to_index(value["index"], decode_item)
    if tag == "Series":
        return _to_column(value["value"], decode_item, index).rename(decode_item(value["name"]))
    columns = [_to_column(column, decode_item, index) for column in value["value"]]
    table = pandas.DataFrame(dict(enumerate(columns)), index=index)
    table.columns = _to_index(value["columns"], decode_item)
    return table


def _array(value: Any, encode_item: Encode) -> dict[str, Any]:
    shape = list(value.shape)
    if value.dtype.kind in _FIXED_KINDS:
        return {"dtype": value.dtype.str, "shape": shape, "value": wire.as_base64(value.tobytes())}
    return {"shape": shape, "items": [encode_item(item) for item in value.ravel().tolist()]}


def _to_array(value: dict[str, Any], decode_item: Decode) -> Any:
    import numpy

    shape = tuple(value["shape"])
    if "items" not in value:
        return numpy.frombuffer(wire.from_base64(value["value"]), dtype=value["dtype"]).reshape(shape).copy()
    array = numpy.empty(len(value["items"]), dtype=object)
    for at, item in enumerate(value["items"]):
        array[at] = decode_item(item)
    return array.reshape(shape)


def _column(column: Any, encode_item: Encode) -> dict[str, Any]:
    kind = getattr(column.dtype, "kind", "O")
    if str(column.dtype) == getattr(column.dtype, "name", None) and kind in "biufc" and hasattr(column.dtype, "str"):
        return {"array": _array(column.to_numpy(), encode_item)}
    items = column.tolist()
    if hasattr(column.dtype, "na_value"):  # a type of pandas: what is missing has an object of its own
        items = [None if missing else item for item, missing in zip(items, column.isna().tolist())]
    return {"dtype": str(column.dtype), "items": [encode_item(item) for item in items]}


def _to_column(value: dict[str, Any], decode_item: Decode, index: Any = None) -> Any:
    import pandas

    if "array" in value:
        return pandas.Series(_to_array(value["array"], decode_item), index=index)
    items = [decode_item(item) for item in value["items"]]
    column = pandas.Series(items, index=index, dtype=object)
    return column if value["dtype"] == "object" else column.astype(value["dtype"])


def _index(index: Any, encode_item: Encode) -> dict[str, Any]:
    names = [encode_item(name) for name in index.names]
    if type(index).__name__ == "RangeIndex":
        return {"names": names, "range": [index.start, index.stop, index.step]}
    levels = [index.get_level_values(at).to_series() for at in range(index.nlevels)]
    return {"names": names, "levels": [_column(level, encode_item) for level in levels], "several": index.nlevels > 1}


def _to_index(value: dict[str, Any], decode_item: Decode) -> Any:
    import pandas

    names = [decode_item(name) for name in value["names"]]
    if "range" in value:
        return pandas.RangeIndex(*value["range"], name=names[0])
    levels = [_to_column(level, decode_item) for level in value["levels"]]
    if value["several"]:
        return pandas.MultiIndex.from_arrays(levels, names=names)
    return pandas.Index(levels[0], name=names[0])
