"""Finding values and their attributes by name without running code of the user's.

An editor asks for completions with every key press, so a question must have no effect: no property, no `__getattr__` and no
`__dir__` of a class that the user wrote is called. Attributes are read from dictionaries. Only descriptors that are written in C,
and properties of a few libraries whose properties are known to be free of effects, are evaluated.
"""

from __future__ import annotations

import builtins
import sys
from _ast import PyCF_ONLY_AST
from itertools import islice

from . import BUILTINS as __builtins__
from .libraries import dictionary_of, kind_of, modules, order_of, package_of
from .summaries import instance_attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

# More names of one object are not looked at.
_MAX_NAMES = 20_000
_MAX_EXPRESSION = 2_000
_Module = type(sys)
_Function = type(instance_attributes)
_Method = type(instance_attributes.__get__(0))
_GetSet = type(_Function.__dict__["__code__"])
_Member = type(_Function.__dict__["__globals__"])
_MethodWrapper = type(object().__repr__)
_MethodDescriptor = type(str.__dict__["join"])
_Builtin = type(len)
_WrittenInC = (_GetSet, _Member, _MethodDescriptor, type(object.__dict__["__repr__"]))
_module_dictionary: Callable[[Any], dict[str, Any]] = vars(_Module)["__dict__"].__get__
# Libraries whose properties and `__dir__` compute what they show from the object alone.
_LIBRARIES = frozenset("collections datetime decimal fractions io matplotlib numpy pandas pathlib polars pyarrow re uuid".split())
_ITEMS_OF = (dict, list, tuple, str, bytes)
_FRAMES = (("pandas", "DataFrame"), ("pandas", "Series"), ("polars", "DataFrame"))


def evaluate(source: str, namespace: dict[str, Any]) -> Any:
    """The value of `a.b["c"].d`. Raises `LookupError` where only running code could tell."""
    if len(source) > _MAX_EXPRESSION:
        raise LookupError("the expression is too long")
    try:
        tree: Any = compile(source, "<question>", "eval", PyCF_ONLY_AST, True)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise LookupError("this is no expression") from None
    return _value(tree.body, namespace)


def attribute(value: Any, name: str) -> Any:
    """An attribute of a value. Raises `LookupError` where there is none, or where only running code could tell."""
    kind = type(value)
    if issubclass(kind, _Module):
        attributes = _module_dictionary(value)
        if name in attributes:
            return attributes[name]
        submodule = modules.get(f"{attributes.get('__name__')}.{name}")
        if submodule is None:
            raise LookupError(name)
        return submodule
    if issubclass(kind, type):
        return _of_class(value, name)
    return _of_instance(value, kind, name)


def names(value: Any) -> list[str]:
    """The names of the attributes of a value, sorted."""
    kind = type(value)
    found: set[str] = set()
    if issubclass(kind, _Module):
        attributes = _module_dictionary(value)
        _collect(found, attributes)
        package = attributes.get("__name__")
        if type(package) is str:
            start = package + "."
            _collect(found, [name[len(start) :] for name in list(modules) if name.startswith(start)])
    else:
        classes = order_of(value) if issubclass(kind, type) else order_of(kind)
        for base in classes:
            _collect(found, dictionary_of(base))
        if not issubclass(kind, type):
            _collect(found, instance_attributes(value) or {})
            if _is_of_library(kind):
                try:
                    _collect(found, dir(value))
                except Exception:
                    pass
    return sorted(found)


def keys(value: Any) -> list[Any]:
    """The keys that are text or whole numbers, of a dictionary or of a table."""
    kind = type(value)
    if issubclass(kind, dict):
        found: Iterable[Any] = dict.keys(value)
    elif any(kind is kind_of(module, name) for module, name in _FRAMES[::2]):
        found = value.columns
    else:
        return []
    return [key for key in islice(found, _MAX_NAMES) if type(key) in (str, int, bytes)]


def kind_of_value(value: Any) -> str:
    """What an editor shows beside a name: `module`, `class`, `function`, `property` or `instance`."""
    kind = type(value)
    if issubclass(kind, _Module):
        return "module"
    if issubclass(kind, type):
        return "class"
    if kind in (_Function, _Method, _Builtin, _MethodWrapper, _MethodDescriptor, staticmethod, classmethod):
        return "function"
    if kind in (property, _GetSet, _Member):
        return "property"
    return "instance"


def class_attribute(kind: type, name: str) -> tuple[Any, type]:
    """What stands in the dictionary of a class or of one of its bases, and of which. Raises `LookupError`."""
    for base in order_of(kind):
        dictionary = dictionary_of(base)
        if name in dictionary:
            return dictionary[name], base
    raise LookupError(name)


def _value(tree: Any, namespace: dict[str, Any]) -> Any:
    shape = type(tree).__name__
    if shape == "Name":
        if tree.id in namespace:
            return namespace[tree.id]
        known = vars(builtins)
        if tree.id in known:
            return known[tree.id]
        raise LookupError(tree.id)
    if shape == "Constant":
        return tree.value
    if shape == "Attribute":
        return attribute(_value(tree.value, namespace), tree.attr)
    if shape == "Subscript" and type(tree.slice).__name__ == "Constant":
        return _item(_value(tree.value, namespace), tree.slice.value)
    literal = {"List": list, "Dict": dict, "Tuple": tuple, "Set": set, "JoinedStr": str}.get(shape)
    if literal is not None:
        return literal()
    raise LookupError("only running the code could tell")


def _item(value: Any, key: Any) -> Any:
    kind = type(value)
    if kind in _ITEMS_OF or any(kind is kind_of(module, name) for module, name in _FRAMES):
        try:
            return value[key]
        except Exception:
            pass
    raise LookupError(f"{key!r}")


def _of_class(value: type, name: str) -> Any:
    try:
        found, _ = class_attribute(value, name)
    except LookupError:
        found, _ = class_attribute(type(value), name)
        if type(found) in _WrittenInC:
            return found.__get__(value)
    if type(found) is staticmethod:
        return found.__func__
    if type(found) is classmethod:
        return _bound(found.__func__, value)
    return found


def _of_instance(value: Any, kind: type, name: str) -> Any:
    own = instance_attributes(value) or {}
    try:
        found, base = class_attribute(kind, name)
    except LookupError:
        if name in own:
            return own[name]
        if _is_of_library(kind):  # columns of a table
            return _read(value, name)
        raise
    shape = type(found)
    if shape is _Function:
        return own[name] if name in own else _bound(found, value)
    if shape is staticmethod:
        return found.__func__
    if shape is classmethod:
        return _bound(found.__func__, kind)
    if shape in _WrittenInC:
        try:
            return found.__get__(value)
        except Exception:
            raise LookupError(name) from None
    if not hasattr(shape, "__get__"):
        return own.get(name, found)
    if _is_of_library(base) and _is_of_library(kind):
        return _read(value, name)
    raise LookupError("only running the code could tell")


def _read(value: Any, name: str) -> Any:
    try:
        return getattr(value, name)
    except Exception:
        raise LookupError(name) from None


def _bound(function: Any, owner: Any) -> Any:
    return _Method(function, owner) if type(function) is _Function else function


def _is_of_library(kind: type) -> bool:
    return package_of(kind) in _LIBRARIES


def _collect(found: set[str], more: Iterable[Any]) -> None:
    for name in islice(list(more), max(0, _MAX_NAMES - len(found))):
        if type(name) is str and name.isidentifier():
            found.add(name)
