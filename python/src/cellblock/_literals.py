"""Python values from their `repr`, without running any code.

What a cell gives comes over as the text that `repr` makes. Numbers, texts, bytes and containers of them are read back exactly;
so are dates, decimals, paths and the scalars of numpy. Objects of classes (`Point(x=1, y=2)`) become `Instance`, which a type
that was asked for can be made from. Nothing that the session says is executed or unpickled.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from .errors import WrongValue

# In an honest value hardly two keys have one hash: numbers that differ by a multiple of 2⁶¹ - 1.
_MAX_EQUAL_HASHES = 1000


class Instance:
    """An object of a class that only the session knows: the name of the class, and the arguments that its repr shows."""

    __slots__ = ("arguments", "fields", "name")

    def __init__(self, name: str, arguments: list[Any], fields: dict[str, Any]) -> None:
        self.name = name
        self.arguments = arguments
        self.fields = fields

    def __repr__(self) -> str:
        given = [repr(item) for item in self.arguments] + [f"{name}={value!r}" for name, value in self.fields.items()]
        return f"{self.name}({', '.join(given)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instance) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def read_repr(text: str) -> Any:
    """The value whose repr this is. Raises `WrongValue` when the text is no value that can be read back."""
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except _NotAValue as problem:
        raise WrongValue(_unreadable(text, str(problem)), "value") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError, SystemError):
        problem_words = "it was cut" if "… (" in text[-60:] else "its repr is no Python literal"
        raise WrongValue(_unreadable(text, problem_words), "value") from None


class _NotAValue(Exception):
    """A part of the text that stands for no value."""


def _unreadable(text: str, problem: str) -> str:
    shown = text if len(text) <= 80 else text[:80] + "…"
    return (
        f"the value {shown} cannot be read back ({problem}); "
        "end the cell with plain data (numbers, texts, lists, dicts), or bind it to a name and use `session.get(name)`"
    )


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value) if value is not ...:
            return value
        case ast.List(elts=items):
            return [_value(item) for item in items]
        case ast.Tuple(elts=items):
            return tuple(_value(item) for item in items)
        case ast.Set(elts=items):
            return _hashed(set, items)
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return _dictionary([key for key in keys if key is not None], values)
        case ast.Name(id="nan" | "inf" as name):
            return float(name)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            number = _number(operand)
            return -number if isinstance(sign, ast.USub) else number
        case ast.BinOp(op=ast.Add() | ast.Sub() as sign, left=left, right=right):
            real, imaginary = _number(_unsigned(left)), _number(right)  # a complex number
            real = -real if isinstance(left, ast.UnaryOp) else real
            return real + imaginary if isinstance(sign, ast.Add) else real - imaginary
        case ast.Attribute(value=ast.Name(id="np"), attr="True_" | "False_" as name):
            return name == "True_"
        case ast.Call():
            return _call(node)
        case _:
            pass
    raise _NotAValue(f"`{type(node).__name__.lower()}` is no value")


def _unsigned(node: ast.expr) -> ast.expr:
    return node.operand if isinstance(node, ast.UnaryOp) else node


def _number(node: ast.expr) -> Any:
    value = _value(node)
    if isinstance(value, (int, float, complex)):
        return value
    raise _NotAValue("a sign stands before something that is no number")


def _hashed(kind: Callable[[list[Any]], Any], items: list[ast.expr]) -> Any:
    return kind(_keys([_value(item) for item in items]))


def _dictionary(keys: list[ast.expr], values: list[ast.expr]) -> dict[Any, Any]:
    return dict(zip(_keys([_value(key) for key in keys]), map(_value, values), strict=True))


def _keys(keys: list[Any]) -> list[Any]:
    """Keys that a set or a dict is made of. Many with one hash are refused: each would be compared with all the others."""
    try:
        hashes = {hash(key) for key in keys}
    except TypeError:
        raise _NotAValue("a set or a key holds something that cannot be hashed") from None
    if len(keys) - len(hashes) > _MAX_EQUAL_HASHES:
        raise _NotAValue("too many keys have the same hash")
    return keys


def _call(node: ast.Call) -> Any:
    name = _dotted(node.func)
    if any(keyword.arg is None for keyword in node.keywords):
        raise _NotAValue("`**` is no value")
    arguments = [_value(argument) for argument in node.args]
    fields = {keyword.arg: _value(keyword.value) for keyword in node.keywords if keyword.arg is not None}
    make = _KNOWN.get(name)
    if make is None:
        return Instance(name.rpartition(".")[2], arguments, fields)
    try:
        return make(*arguments, **fields)
    except Exception as error:
        raise _NotAValue(f"{name}: {error}") from None


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_dotted(value)}.{name}"
        case _:
            pass
    raise _NotAValue("it calls something that has no name")


def _imported(module: str, name: str) -> Callable[..., Any]:
    def make(*arguments: Any, **fields: Any) -> Any:
        import importlib

        return getattr(importlib.import_module(module), name)(*arguments, **fields)

    return make


def _first(value: Any, *_rest: Any, **_options: Any) -> Any:
    return value


def _written_out(items: Any) -> Any:
    # `frozenset(range(10**12))` is a short text and no memory is large enough for it.
    if isinstance(items, (list, tuple, set, dict, bytes)):
        return items
    raise ValueError("its items are not written out")


def _pairs(items: Any) -> dict[Any, Any]:
    made = list(items.items() if isinstance(items, dict) else items)
    return dict(zip(_keys([key for key, _ in made]), [value for _, value in made], strict=True))


def _fraction(numerator: Any, denominator: Any = 1) -> Any:
    # `Fraction('1e999999999')` is a short text and a number of gigabytes.
    from fractions import Fraction

    if isinstance(numerator, int) and isinstance(denominator, int):
        return Fraction(numerator, denominator)
    raise ValueError("its parts are no whole numbers")


def _timestamp(text: str) -> Any:
    from datetime import datetime

    return datetime.fromisoformat(text)


_KNOWN: dict[str, Callable[..., Any]] = {
    "set": lambda items=(): set(_keys(list(_written_out(items)))),
    "frozenset": lambda items=(): frozenset(_keys(list(_written_out(items)))),
    "range": range,
    "bytearray": lambda text: bytearray(_written_out(text)),
    "dict_keys": lambda items: list(_written_out(items)),
    "dict_values": lambda items: list(_written_out(items)),
    "dict_items": lambda items: list(_written_out(items)),
    "OrderedDict": lambda items=(): _pairs(_written_out(items)),
    "Counter": lambda items=(): _pairs(_written_out(items)),
    "deque": lambda items=(), maxlen=None: list(_written_out(items)),
    "array": _first,
    "datetime.date": _imported("datetime", "date"),
    "datetime.datetime": _imported("datetime", "datetime"),
    "datetime.time": _imported("datetime", "time"),
    "datetime.timedelta": _imported("datetime", "timedelta"),
    "Decimal": _imported("decimal", "Decimal"),
    "Fraction": _fraction,
    "UUID": _imported("uuid", "UUID"),
    "PosixPath": _imported("pathlib", "PurePosixPath"),
    "PurePosixPath": _imported("pathlib", "PurePosixPath"),
    "Timestamp": lambda text, **_: _timestamp(text),
    **{f"np.{name}": _first for name in ("bool", "bool_", "str_", "bytes_", "float16", "float32", "float64", "longdouble")},
    **{f"np.{sign}int{bits}": _first for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "np.complex128": _first,
    "np.complex64": _first,
}
