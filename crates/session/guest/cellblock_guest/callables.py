"""The parameters of something that can be called, read from code objects: asking the object itself would run the user's code."""

from __future__ import annotations

from . import BUILTINS as __builtins__
from . import lookup, reprs
from .libraries import is_exactly, module_of
from .summaries import instance_attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_WRAPPERS = 20
_DEFAULT = 40  # the most characters of a default value
FUNCTION = type(instance_attributes)
METHOD = type(instance_attributes.__get__(0))
_Builtins = (type(len), type(str.__dict__["join"]), type(object.__dict__["__repr__"]), type(object().__repr__))


class Parameter:
    """One parameter: `mark` is `*`, `**`, or empty; `default` is the text of its default value, or `None`."""

    __slots__ = ("by_keyword", "default", "mark", "name")

    def __init__(self, name: str, default: str | None = None, mark: str = "", by_keyword: bool = True) -> None:
        self.name, self.default, self.mark, self.by_keyword = name, default, mark, by_keyword

    def text(self) -> str:
        return self.mark + self.name + ("" if self.default is None else f"={self.default}")


def parameters(value: Any) -> list[Parameter] | None:
    """What the call of a value takes; `None` where that is not known."""
    for _ in range(_MAX_WRAPPERS):
        kind = type(value)
        if kind is METHOD:
            return _without_first(parameters(value.__func__))
        if kind is FUNCTION:
            own = instance_attributes(value) or {}
            signature = own.get("__signature__")
            if signature is not None and is_exactly(type(signature), "inspect", "Signature"):
                return _of_signature(signature)
            if type(own.get("__wrapped__")) in (FUNCTION, METHOD, *_Builtins):
                value = own["__wrapped__"]
                continue
            return _of_code(value)
        if kind in _Builtins:
            return _of_builtin(value)
        if is_exactly(kind, "functools", "partial"):
            return _without_given(value)
        if issubclass(kind, type):
            return _of_class(value)
        try:
            call, _ = lookup.class_attribute(kind, "__call__")
        except LookupError:
            return None
        return _without_first(_of_code(call)) if type(call) is FUNCTION else None
    return None


def signature(value: Any) -> str:
    """`(a, b=2, *rest)`; empty where that is not known."""
    found = parameters(value)
    if found is None:
        return ""
    parts: list[str] = []
    was_positional = False
    for parameter in found:
        if was_positional and (parameter.by_keyword or parameter.mark):
            parts.append("/")
        was_positional = not parameter.by_keyword and not parameter.mark
        parts.append(parameter.text())
    if was_positional:
        parts.append("/")
    return f"({', '.join(parts)})"


def _of_code(function: Any) -> list[Parameter]:
    code = function.__code__
    variables = code.co_varnames
    count, only = code.co_argcount, code.co_kwonlyargcount
    defaults = function.__defaults__ or ()
    keyword_defaults = function.__kwdefaults__ or {}
    found: list[Parameter] = []
    for index, name in enumerate(variables[:count]):
        position = index - (count - len(defaults))
        default = None if position < 0 else reprs.safe(defaults[position], _DEFAULT)
        found.append(Parameter(name, default, by_keyword=index >= code.co_posonlyargcount))
    after = count + only
    if code.co_flags & 0x04:
        found.append(Parameter(variables[after], mark="*", by_keyword=False))
        after += 1
    elif only:
        found.append(Parameter("", mark="*", by_keyword=False))
    for name in variables[count : count + only]:
        default = reprs.safe(keyword_defaults[name], _DEFAULT) if name in keyword_defaults else None
        found.append(Parameter(name, default))
    if code.co_flags & 0x08:
        found.append(Parameter(variables[after], mark="**", by_keyword=False))
    return found


def _of_builtin(value: Any) -> list[Parameter] | None:
    import inspect

    try:
        return _of_signature(inspect.signature(value))
    except (TypeError, ValueError):
        return None


def _of_signature(signature: Any) -> list[Parameter]:
    found: list[Parameter] = []
    has_star = False
    for parameter in list(signature.parameters.values()):
        kind = int(parameter.kind)
        default = None if parameter.default is parameter.empty else reprs.safe(parameter.default, _DEFAULT)
        if kind == 3 and not has_star:
            found.append(Parameter("", mark="*", by_keyword=False))
        has_star = has_star or kind in (2, 3)
        mark = {2: "*", 4: "**"}.get(kind, "")
        found.append(Parameter(str(parameter.name), default, mark, by_keyword=kind in (1, 3)))
    return found


def _of_class(value: type) -> list[Parameter] | None:
    for name in ("__init__", "__new__"):
        try:
            found, base = lookup.class_attribute(value, name)
        except LookupError:
            continue
        if base is object:
            continue
        if type(found) is staticmethod:
            found = found.__func__
        if type(found) is FUNCTION:
            return _without_first(parameters(found))
        break
    # A class that is written in C says it in words; a metaclass of the user's is not asked.
    return _of_builtin(value) if type(value) is type and module_of(value) != "__main__" else []


def _without_first(found: list[Parameter] | None) -> list[Parameter] | None:
    return found[1:] if found and not found[0].mark else found


def _without_given(value: Any) -> list[Parameter] | None:
    found = parameters(value.func)
    return None if found is None else found[len(value.args) :]
