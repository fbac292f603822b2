"""JSON as it travels on the channel and inside MIME bundles.

The C scanner and encoder are used directly: importing `json` costs milliseconds, and user code may have patched it.
"""

from __future__ import annotations

from _collections_abc import Mapping
from _json import encode_basestring, make_encoder, make_scanner
from binascii import a2b_base64, b2a_base64

from . import BUILTINS as __builtins__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Frame: TypeAlias = dict[str, Any]

# What the host refuses: frames of more bytes, frames that take more memory once they are parsed, and values nested deeper than
# 128.
MAX_BYTES = 32 << 20
MAX_MEMORY = 64 << 20
MAX_DEPTH = 100
# A frame of fewer bytes takes less than that memory, whatever is in it.
_ALWAYS_FITS = 200_000
# What the host counts for a value beside its text (`json_memory.rs`): a list, a dictionary, an item of each, and a string.
_LIST, _DICT, _ITEM, _ENTRY, _STRING = 320, 512, 144, 224, 32
# Whole numbers beyond 64 bits would become floats on the other side.
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1


class FrameTooLarge(ValueError):
    """A frame that the host would refuse."""


def encode(frame: Mapping[str, Any]) -> bytes:
    """A frame's bytes, with its length in front."""
    body = dumps(frame).encode()
    size = len(body)
    if size > _ALWAYS_FITS:
        if size > MAX_BYTES:
            raise FrameTooLarge(f"{size} bytes are more than can be sent at once ({MAX_BYTES})")
        memory = size + memory_beside_text(frame)
        if memory > MAX_MEMORY:
            needed, most = memory >> 20, MAX_MEMORY >> 20
            raise FrameTooLarge(f"{count(frame)} values would take {needed} MiB of the host's memory, and {most} are the most")
    return size.to_bytes(4, "little") + body


def decode(body: bytes | bytearray) -> Frame:
    frame: Frame = _scan(str(body, "utf-8"), 0)[0]
    return frame


def dumps(value: Any) -> str:
    """JSON text that is always valid UTF-8 and never holds a bare `NaN`."""
    try:
        text = "".join(_encode(value, 0))
    except ValueError:
        text = "".join(_encode(_finite(value), 0))
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Lone surrogates cannot be sent; each becomes U+FFFD.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def plain(value: Any, what: str = "value", depth: int = 0) -> Any:
    """A user's value as plain JSON data; NaN becomes null. Raises `TypeError`, naming `what`, for what JSON cannot say."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        if not _MIN_INT <= value <= _MAX_INT:
            raise TypeError(f"{what}: a whole number beyond 64 bits cannot be sent; pass it as a string")
        return value
    if kind is float:
        return value if is_finite(value) else None
    if depth > MAX_DEPTH:
        raise TypeError(f"{what[:40]}…: nested deeper than {MAX_DEPTH} levels, or contains itself")
    if isinstance(value, Mapping):
        return {_key(key, what): plain(item, f"{what}[{key!r}]", depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, f"{what}[{index}]", depth + 1) for index, item in enumerate(value)]
    for base in (str, int, float):  # enums with a value, numpy's float64
        if isinstance(value, base):
            return plain(base(value), what, depth + 1)
    for method in ("isoformat", "tolist", "__fspath__"):  # dates, arrays, paths
        convert = getattr(value, method, None)
        if callable(convert):
            return plain(convert(), what, depth + 1)
    raise TypeError(f"{what}: {kind.__name__} is not a JSON value; pass text, numbers, booleans, None, lists or dicts")


def as_base64(data: bytes | bytearray | memoryview) -> str:
    return b2a_base64(data, newline=False).decode()


def from_base64(text: str) -> bytes:
    return a2b_base64(text)


def is_finite(number: float) -> bool:
    return number - number == 0.0


class _Plain:
    """What the C scanner asks its context for."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def _refuse(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is not a JSON value")


_scan = make_scanner(_Plain())  # type: ignore[arg-type]  # only these attributes are read
_encode = make_encoder(None, _refuse, encode_basestring, None, ":", ",", False, False, False)


def count(value: Any) -> int:
    """How many values a structure has in all."""
    if isinstance(value, dict):
        return 1 + sum([count(item) for item in value.values()])
    if isinstance(value, (list, tuple)):
        return 1 + sum([count(item) for item in value])
    return 1


def memory_beside_text(value: Any) -> int:
    """What the host counts for the memory of a structure, without the length of its JSON text; never less than the host
    counts."""
    if isinstance(value, dict):
        return _DICT + sum([_ENTRY + _STRING + memory_beside_text(item) for item in value.values()])
    if isinstance(value, (list, tuple)):
        return _LIST + sum([_ITEM + memory_beside_text(item) for item in value])
    return _STRING


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if is_finite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def _key(key: Any, what: str) -> str:
    if isinstance(key, str):
        return str(key)
    if key is None or isinstance(key, (bool, int, float)):
        return str(plain(key, what))
    raise TypeError(f"{what}: the key {key!r} is a {type(key).__name__}; JSON keys are text")
