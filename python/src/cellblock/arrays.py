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

_SAFE_PYARROW = (14, 0, 1)
# Columns without a value take no byte in a file, and eight for each row in pandas.
_FEW_CELLS = 10_000_000


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
    """The array or table that a session wrote. Its bytes are hostile: they may say anything about sizes and types."""
    library = _known(kind)
    try:
        return {"numpy": _array, "polars": _polars_table}.get(library, _arrow_table)(contents, library)
    except BaseException as error:
        # The libraries raise whatever they like, also `MemoryError`. A panic of polars is no `Exception`.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise WrongValue(f"what the session wrote is no {kind.__name__} that can be read here: {error}", "value") from None


def _array(contents: bytes, _library: str) -> Any:
    import io
    from math import prod

    import numpy
    from numpy.lib import format as npy

    stream = io.BytesIO(contents)
    version = npy.read_magic(stream)  # `numpy.load` would take an archive or a pickle as well
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    if version != (3, 0):  # field names beyond Latin-1: numpy has no public reader for this header
        shape, _, dtype = read_header(stream)
        if prod(shape) * max(dtype.itemsize, 1) > len(contents) - stream.tell():
            raise ValueError(f"its shape {shape} is larger than its data")
    stream.seek(0)
    return numpy.load(stream, allow_pickle=False)


def _polars_table(contents: bytes, _library: str) -> Any:
    import io

    import polars

    try:
        # The reader of polars ends the process on some broken files; that of pyarrow checks all of a file.
        return polars.from_arrow(_checked_table(contents))
    except ImportError:
        return polars.read_ipc(io.BytesIO(contents))


def _arrow_table(contents: bytes, library: str) -> Any:
    table = _checked_table(contents)
    return table.to_pandas() if library == "pandas" else table


def _checked_table(contents: bytes) -> Any:
    import io

    import pyarrow
    from pyarrow import feather

    if _version(pyarrow.__version__) < _SAFE_PYARROW:
        # Older ones unpickle what a file says about its types (CVE-2023-47248).
        raise ImportError(f"pyarrow {pyarrow.__version__} runs code that a table brings along; 14.0.1 and later do not")
    table = feather.read_table(io.BytesIO(contents))
    # Offsets that lead out of a column would be followed into other memory of this process.
    table.validate(full=True)
    if table.num_rows * table.num_columns > max(8 * len(contents), _FEW_CELLS):
        raise ValueError(f"{table.num_rows} rows of {table.num_columns} columns are more than its data")
    return table


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:3] if part.isdigit())


def _library(kind: type) -> str | None:
    module = kind.__module__.partition(".")[0]
    return _KINDS.get((module, kind.__name__))


def _known(kind: type) -> str:
    library = _library(kind)
    assert library is not None, kind
    return library
