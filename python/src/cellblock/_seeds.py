"""Values on their way into a session: as JSON where that is exact, else as Python source made of literals."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping
from keyword import iskeyword
from typing import Any, NamedTuple

from .errors import WrongValue

_INTEGERS = range(-(2**63), 2**63)
_MAX_DEPTH = 60


class Seeds(NamedTuple):
    """Variables for a session: those that JSON says exactly, and source code that binds the rest."""

    variables: dict[str, Any]
    code: str


def seeds_from(variables: Mapping[str, Any]) -> Seeds:
    """The values as JSON and as code. Raises `WrongValue` for a name that is none, or a value that cannot cross."""
    exact: dict[str, Any] = {}
    lines: list[str] = []
    for name, value in variables.items():
        if not name.isidentifier() or iskeyword(name):
            raise WrongValue(f"{name!r} cannot be the name of a variable", "value")
        if isinstance(value, bytes):
            exact[name] = {"$bytes": b64encode(value).decode("ascii")}
        elif _is_exact_json(value, 0) and not (isinstance(value, dict) and "$bytes" in value):
            exact[name] = value
        else:
            lines.append(f"{name} = {literal(value, name)}")
    return Seeds(exact, "\n".join(lines))


def literal(value: Any, place: str = "the value", depth: int = 0) -> str:
    """Python source that makes an equal value. Raises `WrongValue` for objects that have none."""
    if depth > _MAX_DEPTH:
        raise WrongValue(f"{place} is nested too deeply, or contains itself", "value")
    kind = type(value)
    if kind in (int, bool, str, bytes, type(None)):
        return repr(value)
    if kind is float:
        return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
    if kind is complex:
        return f"complex({literal(value.real)}, {literal(value.imag)})"
    if kind is dict:
        pairs = (f"{literal(key, place, depth + 1)}: {literal(item, place, depth + 1)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if kind in (list, tuple, set, frozenset, bytearray, range):
        return _container(value, kind, place, depth)
    module = kind.__module__.partition(".")[0]
    if module in ("datetime", "decimal", "fractions", "uuid"):
        return _standard(value, module)
    if module == "pathlib":
        return f"__import__('pathlib').PurePosixPath({str(value)!r})"
    if module == "numpy" and hasattr(value, "item") and not getattr(value, "shape", ()):
        return literal(value.item(), place, depth)
    raise WrongValue(
        f"{place} is a {kind.__name__}, which cannot cross into a session: give plain data, "
        "or put a file into the workspace with `session.files` and read it there",
        "value",
    )


def _container(value: Any, kind: type, place: str, depth: int) -> str:
    if kind is bytearray:
        return f"bytearray({bytes(value)!r})"
    if kind is range:
        return repr(value)
    items = [literal(item, place, depth + 1) for item in value]
    if kind is list:
        return f"[{', '.join(items)}]"
    if kind is tuple:
        return f"({', '.join(items)},)" if items else "()"
    made = f"{{{', '.join(items)}}}" if items else ""
    return f"{kind.__name__}({made})" if kind is frozenset or not items else made


def _standard(value: Any, module: str) -> str:
    text = repr(value)
    name = type(value).__name__
    # `datetime.date(2024, 1, 2)` names its module, `Decimal('1')` does not.
    if module == "datetime":
        return text.replace("datetime.", "__import__('datetime').")
    return f"__import__({module!r}).{name}" + text[len(name) :]


def _is_exact_json(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind is int:
        return value in _INTEGERS
    if kind is float:
        # A whole number with a point stays a float in JSON: 2.0.
        return math.isfinite(value)
    if kind is str:
        return not any(0xD800 <= ord(character) <= 0xDFFF for character in value)
    if kind is bool or value is None:
        return True
    if depth > _MAX_DEPTH:
        return False
    if kind is list:
        return all(_is_exact_json(item, depth + 1) for item in value)
    if kind is dict:
        return all(type(key) is str and _is_exact_json(item, depth + 1) for key, item in value.items())
    return False
