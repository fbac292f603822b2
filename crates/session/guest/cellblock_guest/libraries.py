"""Libraries that values may come from. None is ever imported here: a value of pandas exists only if pandas is loaded."""

from __future__ import annotations

import sys

from . import BUILTINS as __builtins__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The import system's own table; user code may rebind `sys.modules` to something else.
modules = sys.modules

# What a class says of itself, asked of `type`: a metaclass of the user's may compute its attributes, with effects.
module_of = type.__dict__["__module__"].__get__
name_of = type.__dict__["__name__"].__get__
order_of = type.__dict__["__mro__"].__get__
dictionary_of = type.__dict__["__dict__"].__get__

_found: dict[tuple[str, str], type] = {}


def kind_of(module: str, name: str) -> type | None:
    """The class `module.name` if that library is loaded."""
    kind = _found.get((module, name))
    if kind is None and module in modules:
        kind = getattr(modules[module], name, None)
        if not isinstance(kind, type):
            return None
        _found[module, name] = kind
    return kind


def package_of(kind: type) -> str:
    """The top package that a class says it comes from."""
    module = module_of(kind)
    return module.partition(".")[0] if type(module) is str else ""


def is_exactly(kind: type, module: str, name: str) -> bool:
    return kind is kind_of(module, name)


def is_a(value: Any, module: str, name: str) -> bool:
    kind = kind_of(module, name)
    return kind is not None and issubclass(type(value), kind)
