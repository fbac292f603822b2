"""One line about a variable: what it is and how large. Runs no code of the user's, and costs the same for large values."""

from __future__ import annotations

import sys
from itertools import islice

from . import BUILTINS as __builtins__
from . import reprs
from .libraries import dictionary_of, is_exactly, kind_of, module_of, order_of, package_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LIMIT = 120

_Function = type(reprs.safe)
_Module = type(sys)
_GetSet = type(_Function.__dict__["__code__"])  # what a plain `__dict__` is in a class, too
_bases_of = type.__dict__["__bases__"].__get__
_COLLECTIONS = (list, tuple, dict, set, frozenset)


def summarize(value: Any) -> str:
    try:
        return reprs.shorten(_summary(value, type(value)), LIMIT)
    except Exception:  # a library that does not behave as its known version does
        return ""


def describe(name: str, value: Any) -> dict[str, str]:
    return {"name": name, "type": reprs.type_name(type(value)), "summary": summarize(value)}


def size_in_bytes(value: Any) -> int:
    """Roughly the memory of a value itself, with the data of tables and arrays; 0 if only its own code could tell."""
    kind = type(value)
    try:
        if is_exactly(kind, "numpy", "ndarray"):
            return int(value.nbytes)
        if is_exactly(kind, "pandas", "DataFrame"):
            return int(value.memory_usage(deep=False).sum())
        if is_exactly(kind, "pandas", "Series"):
            return int(value.memory_usage(deep=False))
        if is_exactly(kind, "polars", "DataFrame"):
            return int(value.estimated_size())
        if _has_plain_size(kind) or module_of(kind) == "builtins":
            return sys.getsizeof(value)
    except Exception:
        pass
    return 0


def instance_attributes(value: Any) -> dict[str, Any] | None:
    """The attributes in an instance's own dictionary, read without running a property or a `__getattribute__`."""
    for base in order_of(type(value)):
        descriptor = dictionary_of(base).get("__dict__")
        if descriptor is not None:
            if type(descriptor) is not _GetSet:
                return None
            attributes = descriptor.__get__(value)
            return attributes if type(attributes) is dict else None
    return None


def _has_plain_size(kind: type) -> bool:
    """Whether the size of an object is what `object` says, and not computed by code of the user's."""
    return not any("__sizeof__" in dictionary_of(base) for base in order_of(kind) if base is not object)


def _summary(value: Any, kind: type) -> str:
    if kind in _COLLECTIONS:
        return f"len {len(value)}: {reprs.safe(value, LIMIT)}"
    if kind is str or kind is bytes:
        return repr(value) if len(value) <= LIMIT - 2 else f"len {len(value)}: {value[:LIMIT]!r}"
    if kind is _Function:
        return _signature(value)
    if kind is _Module:
        return str(value.__dict__.get("__name__", ""))
    if issubclass(kind, type):
        bases = ", ".join(reprs.type_name(base) for base in _bases_of(value) if base is not object)
        return f"class {reprs.type_name(value)}" + (f"({bases})" if bases else "")
    library = _library_summary(kind)
    if library is not None:
        return library(value)
    text = reprs.safe(value, LIMIT)
    if text == f"<{reprs.type_name(kind)}>":
        return _attributes(value)
    return text


def _attributes(value: Any) -> str:
    attributes = instance_attributes(value)
    if not attributes:
        return ""
    shown = [
        f"{name}={reprs.safe(item, 30)}"
        for name, item in islice(list(attributes.items()), 20)
        if type(name) is str and name[:1] != "_" and item is not None and type(item) not in (_Function, _Module)
    ]
    return ", ".join(shown[:6])


def _signature(function: Any) -> str:
    """`f(a, b=2, *rest, c, **options)`, from the code object: `inspect` would run what the user wrapped around it."""
    code = function.__code__
    names = code.co_varnames
    count, only = code.co_argcount, code.co_kwonlyargcount
    defaults = function.__defaults__ or ()
    keyword_defaults = function.__kwdefaults__ or {}
    parts: list[str] = []
    for index, name in enumerate(names[:count]):
        position = index - (count - len(defaults))
        parts.append(name if position < 0 else f"{name}={reprs.safe(defaults[position], 30)}")
        if index + 1 == code.co_posonlyargcount:
            parts.append("/")
    after = count + only
    if code.co_flags & 0x04:
        parts.append("*" + names[after])
        after += 1
    elif only:
        parts.append("*")
    for name in names[count : count + only]:
        parts.append(f"{name}={reprs.safe(keyword_defaults[name], 30)}" if name in keyword_defaults else name)
    if code.co_flags & 0x08:
        parts.append("**" + names[after])
    return f"{function.__name__}({', '.join(parts)})"


def _frame(value: Any) -> str:
    rows, columns = value.shape
    names = [_label(name) for name in value.columns[:6]]
    if columns <= 100:  # pandas makes the list of all types each time
        names = [f"{name} {dtype}" for name, dtype in zip(names, value.dtypes)]
    more = " …" if columns > len(names) else ""
    return f"{rows} rows × {columns} columns: {', '.join(names)}{more}"


def _series(value: Any) -> str:
    name = "" if value.name is None else f", name {_label(value.name)}"
    return f"{len(value)} values, {value.dtype}{name}"


def _array(value: Any) -> str:
    return f"shape {tuple(value.shape)}, {value.dtype}"


def _label(name: Any) -> str:
    return name if type(name) is str else reprs.safe(name, 40)


_SUMMARIES: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("pandas", "DataFrame", _frame),
    ("pandas", "Series", _series),
    ("polars", "DataFrame", _frame),
    ("polars", "Series", _series),
    ("numpy", "ndarray", _array),
    ("torch", "Tensor", _array),
)
_PACKAGES = frozenset(module for module, _, _ in _SUMMARIES)


def _library_summary(kind: type) -> Callable[[Any], str] | None:
    if package_of(kind) in _PACKAGES:
        for module, name, summary in _SUMMARIES:
            if kind is kind_of(module, name):
                return summary
    return None
