"""A cheap trace of a value's content, to see that it was changed in place.

It looks at lengths, shapes and a few elements, so it costs the same for a list of ten and of ten million. It runs no code of
the user's, and holds no reference to anything but small text and numbers. What changed in a place that it does not look at
goes unseen.
"""

from __future__ import annotations

from itertools import islice

from . import BUILTINS as __builtins__
from .libraries import kind_of, modules, package_of
from .summaries import instance_attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_ENDS = 4  # elements looked at on each end of a container
_WHOLE = 16_384  # arrays of at most this many bytes are looked at as a whole
_SPREAD = 64  # elements looked at in larger arrays
_BLOCKS = 12
_ATOMS = frozenset((int, float, bool, complex, type(None)))


def fingerprint(value: Any, depth: int = 2) -> Any:
    """Something that compares equal as long as no change of the value was seen."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is str or kind is bytes:
        return value if len(value) < 200 else (id(value), len(value))
    look = _LOOKS.get(kind)
    if look is None:
        look = _library_look(kind)
    if look is not None and depth:
        return look(value, depth - 1)
    if depth:
        attributes = instance_attributes(value)
        if attributes:
            return id(value), _dict(attributes, depth - 1)
    return id(value)


def _sequence(value: Any, depth: int) -> Any:
    size = len(value)
    items = value[:] if size <= 2 * _ENDS else value[:_ENDS] + value[-_ENDS:]
    if _ATOMS.issuperset(map(type, items)):  # numbers: the usual case, at the speed of C
        return size, items
    return size, [fingerprint(item, depth) for item in items]


def _dict(value: dict[Any, Any], depth: int) -> Any:
    size = len(value)
    items = list(islice(value.items(), 2 * _ENDS if size <= 2 * _ENDS else _ENDS))
    if size > 2 * _ENDS:
        items += islice(reversed(value.items()), _ENDS)
    return size, [(fingerprint(key, 0), fingerprint(item, depth)) for key, item in items]


def _set(value: Any, depth: int) -> Any:
    return len(value), [fingerprint(item, 0) for item in islice(value, 2 * _ENDS)]


def _bytearray(value: bytearray, depth: int) -> Any:
    return len(value), hash(bytes(value[:_WHOLE])), hash(bytes(value[-_WHOLE:]))


def _array(value: Any, depth: int) -> Any:
    shape = value.shape
    if value.dtype.hasobject:
        return shape, _elements(value.flat, value.size)
    if value.nbytes <= _WHOLE:
        return shape, str(value.dtype), hash(value.tobytes())
    return shape, str(value.dtype), hash(value.flat[:: value.size // _SPREAD].tobytes())


def _table(value: Any, depth: int) -> Any:
    """A pandas object by its blocks, which are replaced or written into when it changes."""
    manager = value._mgr
    blocks = manager.blocks
    parts = [(id(block), _block(block.values)) for block in blocks[:_BLOCKS]]
    return value.shape, len(blocks), [id(axis) for axis in manager.axes], parts


def _block(values: Any) -> Any:
    array = kind_of("numpy", "ndarray")
    if type(values) is array:
        return _array(values, 0)
    # One of pandas' own arrays: around one or two of numpy, or around one of Arrow, which is replaced when it changes.
    parts = [getattr(values, name, None) for name in ("_ndarray", "_data", "_mask")]
    return id(getattr(values, "_pa_array", None)), [_array(part, 0) for part in parts if type(part) is array]


def _elements(values: Any, size: int) -> list[Any]:
    step = max(1, size // (2 * _ENDS))
    return [fingerprint(values[index], 0) for index in range(0, size, step)[: 2 * _ENDS]]


def _identity(value: Any, depth: int) -> Any:
    return id(value)


def _shape(value: Any, depth: int) -> Any:
    return tuple(value.shape), id(value)


def _tensor(value: Any, depth: int) -> Any:
    return tuple(value.shape), value._version


_LOOKS: dict[type, Callable[[Any, int], Any]] = {
    list: _sequence,
    tuple: _sequence,
    dict: _dict,
    set: _set,
    frozenset: _set,
    bytearray: _bytearray,
    type: _identity,
    type(fingerprint): _identity,
    type(modules["sys"]): _identity,
}
_LIBRARY_LOOKS: tuple[tuple[str, str, Callable[[Any, int], Any]], ...] = (
    ("numpy", "ndarray", _array),
    ("pandas", "DataFrame", _table),
    ("pandas", "Series", _table),
    ("polars", "DataFrame", _shape),
    ("polars", "Series", _shape),
    ("torch", "Tensor", _tensor),
    ("collections", "deque", _set),
    ("collections", "OrderedDict", _dict),
    ("collections", "defaultdict", _dict),
    ("collections", "Counter", _dict),
)
_PACKAGES = frozenset(module for module, _, _ in _LIBRARY_LOOKS)


def _library_look(kind: type) -> Callable[[Any, int], Any] | None:
    if package_of(kind) in _PACKAGES:
        for module, name, look in _LIBRARY_LOOKS:
            if kind is kind_of(module, name):
                _LOOKS[kind] = look
                return look
    return None
