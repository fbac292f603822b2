"""Data frames of pandas and polars: HTML for people, and rows that a program can read."""

from __future__ import annotations

from . import BUILTINS as __builtins__
from . import reprs, wire
from .libraries import is_a

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MIME = "application/vnd.cellblock.table+json"
MAX_ROWS = 50
MAX_COLUMNS = 30
MAX_COLUMN_ROWS = 10_000  # of `columns`
_HTML_ROWS = 60
_CELL_LIMIT = 1000
_EXACT = 2**53  # beyond it, readers of JSON that know only floats would round


def bundle(value: Any) -> dict[str, Any] | None:
    """The rich forms of a table; None if the value is none, or the library does not behave as expected."""
    try:
        if is_a(value, "pandas", "DataFrame"):
            return {"text/html": _pandas_html(value), MIME: _pandas(value)}
        if is_a(value, "pandas", "Series"):
            frame = value.to_frame() if value.name is not None else value.to_frame("")
            return {"text/html": _pandas_html(frame), MIME: _pandas(frame)}
        if is_a(value, "polars", "DataFrame"):
            return {"text/html": value._repr_html_(), MIME: _polars(value)}
        if is_a(value, "polars", "Series"):
            return {"text/html": value._repr_html_(), MIME: _polars(value.to_frame())}
    except Exception:
        pass
    return None


def columns(value: Any) -> dict[str, list[Any]] | None:
    """All columns of a data frame of pandas by name, up to a number of rows; None if the value is none."""
    try:
        part = value.iloc[:MAX_COLUMN_ROWS]
        return {_label(name): [_cell(item) for item in part.iloc[:, index].tolist()] for index, name in enumerate(part.columns)}
    except Exception:
        return None


def _pandas_html(frame: Any) -> str:
    text: str = frame.to_html(max_rows=_HTML_ROWS, max_cols=MAX_COLUMNS, show_dimensions=len(frame) > _HTML_ROWS, notebook=True)
    return text


def _pandas(frame: Any) -> dict[str, Any]:
    part = frame.iloc[:MAX_ROWS, :MAX_COLUMNS]
    columns = [part.iloc[:, index] for index in range(part.shape[1])]
    cells = [[_cell(item) for item in column.tolist()] for column in columns]
    return {
        "columns": [{"name": _label(name), "dtype": str(column.dtype)} for name, column in zip(part.columns, columns)],
        "index": [_cell(item) for item in part.index.tolist()],
        "rows": [list(row) for row in zip(*cells)] if cells else [[] for _ in range(len(part))],
        "total_rows": int(frame.shape[0]),
        "total_columns": int(frame.shape[1]),
    }


def _polars(frame: Any) -> dict[str, Any]:
    part = frame[:MAX_ROWS, :MAX_COLUMNS]
    return {
        "columns": [{"name": name, "dtype": str(dtype)} for name, dtype in zip(part.columns, part.dtypes)],
        "index": list(range(part.height)),
        "rows": [[_cell(item) for item in row] for row in part.rows()],
        "total_rows": frame.height,
        "total_columns": frame.width,
    }


def _label(name: Any) -> str:
    return name if type(name) is str else str(name)


def _cell(item: Any) -> Any:
    """One cell as JSON: numbers and text as they are, what is missing as null, the rest as text."""
    kind = type(item)
    if item is None or kind is bool:
        return item
    if kind is str:
        return reprs.cut(item, _CELL_LIMIT)
    if kind is int:
        return item if -_EXACT <= item <= _EXACT else str(item)
    if kind is float:
        return item if wire.is_finite(item) else None if item != item else str(item)
    if kind.__name__ in ("NaTType", "NAType"):
        return None
    if kind is tuple:  # a label of a MultiIndex
        return [_cell(part) for part in item]
    if callable(getattr(item, "isoformat", None)):
        return item.isoformat()
    if callable(getattr(item, "tolist", None)) and getattr(item, "ndim", None) == 0:
        return _cell(item.tolist())
    return reprs.cut(str(item), _CELL_LIMIT)
