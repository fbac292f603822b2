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
_ARROW_FILE = b"ARROW1\0\0"
# Kinds of messages in a stream of Arrow.
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
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
    if library != "pandas":
        return _checked_table(contents)
    # pandas has no views of texts and lists, and makes a value of each.
    return _checked_table(contents, with_views=True).to_pandas()


def _checked_table(contents: bytes, with_views: bool = False) -> Any:
    import pyarrow

    if _version(pyarrow.__version__) < _SAFE_PYARROW:
        # Older ones unpickle what a file says about its types (CVE-2023-47248).
        raise ImportError(f"pyarrow {pyarrow.__version__} runs code that a table brings along; 14.0.1 and later do not")
    if not contents.startswith(_ARROW_FILE):
        raise ValueError("it is no Arrow file")
    # An Arrow file is a stream of messages, and at its end a list of places in it. Read without that, each message is one
    # that was checked here.
    stream = pyarrow.py_buffer(contents)[len(_ARROW_FILE) :]
    for message in pyarrow.ipc.MessageReader.open_stream(stream):
        if _is_compressed(message.metadata.to_pybytes()):
            raise ValueError("it is compressed")
    with pyarrow.ipc.open_stream(stream) as reader:
        table = reader.read_all()
    # Offsets that lead out of a column would be followed into other memory of this process.
    table.validate(full=True)
    cells = sum(_cells(chunk, with_views) for column in table.columns for chunk in column.chunks)
    if cells > max(8 * len(contents), _FEW_CELLS):
        raise ValueError(f"{cells} cells are more than its data")
    return table


def _is_compressed(metadata: bytes) -> bool:
    """Whether a message says that its data are compressed: its batch has a field for it (`Message.fbs` of Arrow, flatbuffers)."""
    from struct import unpack_from

    def follow(place: int) -> int:
        return place + int(unpack_from("<I", metadata, place)[0])

    def field(table: int, number: int) -> int | None:
        slots = table - unpack_from("<i", metadata, table)[0]
        place = 4 + 2 * number
        offset = unpack_from("<H", metadata, slots + place)[0] if place < unpack_from("<H", metadata, slots)[0] else 0
        return table + offset if offset else None

    message = follow(0)
    kind, header = field(message, 1), field(message, 2)
    if kind is None or header is None or metadata[kind] not in (_DICTIONARY_BATCH, _RECORD_BATCH):
        return False
    batch: int | None = follow(header)
    if metadata[kind] == _DICTIONARY_BATCH:
        data = field(follow(header), 1)
        batch = None if data is None else follow(data)
    return batch is not None and field(batch, 3) is not None


def _cells(array: Any, with_views: bool) -> int:
    """How many values an array is made of, with those inside of its values. Many of them can take no byte in a file."""
    from pyarrow import types

    kind = array.type
    count = len(array)
    if hasattr(array, "storage"):
        return _cells(array.storage, with_views)
    if types.is_struct(kind) or types.is_union(kind):
        return count + sum(_cells(array.field(number), with_views) for number in range(kind.num_fields))
    if types.is_dictionary(kind):
        return count + _cells(array.dictionary, with_views)
    if _is_a(kind, "list_view", "large_list_view"):
        shown = sum(array.value_lengths().drop_null().to_pylist()) if with_views else 0
        return count + shown + _cells(array.values, with_views)
    if _is_a(kind, "string_view", "binary_view"):
        # Each view has four numbers; the first is its length.
        views = memoryview(array.buffers()[1] or b"").cast("B").cast("i")[4 * array.offset :: 4]
        return count + (sum(views[:count]) // 8 if with_views else 0)
    if hasattr(array, "values"):
        return count + _cells(array.values, with_views)
    return count


def _is_a(kind: Any, *names: str) -> bool:
    """Whether a type is one of these, which older versions of pyarrow do not have."""
    from pyarrow import types

    return any(getattr(types, f"is_{name}", lambda _: False)(kind) for name in names)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:3] if part.isdigit())


def _library(kind: type) -> str | None:
    module = kind.__module__.partition(".")[0]
    return _KINDS.get((module, kind.__name__))


def _known(kind: type) -> str:
    library = _library(kind)
    assert library is not None, kind
    return library
