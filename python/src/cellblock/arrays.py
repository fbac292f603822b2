"""Arrays and tables between your process and a session: numpy arrays as `.npy`, tables as Arrow. Never by pickle.

`session["a"] = array` sends one, `session.get("a", numpy.ndarray)` fetches one; the same with `pandas.DataFrame`,
`polars.DataFrame` and `pyarrow.Table`. Tables need `pyarrow` on both sides (polars brings its own).
"""

from __future__ import annotations

from typing import Any

from .errors import WrongValue

_KINDS = {
    ("numpy", "ndarray"): "numpy",
    ("pandas", "DataFrame"): "pandas",
    ("polars", "DataFrame"): "polars",
    ("pyarrow", "Table"): "pyarrow",
}
_SAVING = {
    "numpy": "__import__('numpy').save(open({file!r}, 'wb'), __import__('numpy').asarray({name}), allow_pickle=False)",
    "pandas": "__import__('pyarrow.feather').feather.write_feather({name}, {file!r}, compression='uncompressed')",
    "polars": "{name}.write_ipc({file!r})",
    "pyarrow": "__import__('pyarrow.feather').feather.write_feather({name}, {file!r}, compression='uncompressed')",
}
_LOADING = {
    "numpy": "__import__('numpy').load(__import__('io').BytesIO({bytes}), allow_pickle=False)",
    "pandas": "__import__('pyarrow.feather').feather.read_table(__import__('io').BytesIO({bytes})).to_pandas()",
    "polars": "__import__('polars').read_ipc(__import__('io').BytesIO({bytes}))",
    "pyarrow": "__import__('pyarrow.feather').feather.read_table(__import__('io').BytesIO({bytes}))",
}


def is_array_type(kind: Any) -> bool:
    """Whether a type crosses as `.npy` or Arrow."""
    return isinstance(kind, type) and _library(kind) is not None


def saving_code(kind: type, name: str, file: str) -> str:
    """Code for the session that writes a variable into a file."""
    return _SAVING[_known(kind)].format(name=name, file=file)


def loading_code(value: Any, name: str) -> str:
    """An expression for the session that makes the array from bytes."""
    return _LOADING[_known(type(value))].format(bytes=name)


def to_bytes(value: Any) -> bytes:
    """An array or a table as `.npy` or Arrow."""
    import io

    buffer = io.BytesIO()
    library = _known(type(value))
    try:
        if library == "numpy":
            import numpy

            numpy.save(buffer, value, allow_pickle=False)
        elif library == "polars":
            value.write_ipc(buffer)
        else:
            from pyarrow import feather

            feather.write_feather(value, buffer, compression="uncompressed")
    except (ImportError, ValueError) as error:
        raise WrongValue(f"the {type(value).__name__} cannot be sent: {error}", "value") from None
    return buffer.getvalue()


def from_bytes(contents: bytes, kind: type) -> Any:
    """The array or table that a session wrote."""
    import io

    library = _known(kind)
    try:
        if library == "numpy":
            import numpy

            return numpy.load(io.BytesIO(contents), allow_pickle=False)
        if library == "polars":
            import polars

            return polars.read_ipc(io.BytesIO(contents))
        from pyarrow import feather

        table = feather.read_table(io.BytesIO(contents))
        return table.to_pandas() if library == "pandas" else table
    except (ImportError, ValueError) as error:
        raise WrongValue(f"what the session wrote is no {kind.__name__} that can be read here: {error}", "value") from None


def _library(kind: type) -> str | None:
    module = kind.__module__.partition(".")[0]
    return _KINDS.get((module, kind.__name__))


def _known(kind: type) -> str:
    library = _library(kind)
    assert library is not None, kind
    return library
