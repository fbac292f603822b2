"""A tool's JSON schema as a Python signature and docstring."""

from __future__ import annotations

from keyword import iskeyword

from . import BUILTINS
from . import BUILTINS as __builtins__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from inspect import Signature
    from typing import Any

_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": None,
}
# A model must say why it calls a tool. Code need not.
_PURPOSE = "tool_call_purpose"


class _NotGiven:
    """The default of an optional argument for which the schema names none. Such an argument is not sent."""

    def __repr__(self) -> str:
        return "..."


NOT_GIVEN = _NotGiven()


class Parameter:
    """One argument of a tool."""

    __slots__ = (
        "annotation",
        "default",
        "description",
        "is_positional",
        "name",
        "python_name",
        "required",
        "takes_python",
        "takes_rest",
    )

    def __init__(self, name: str, schema: dict[str, Any], required: bool) -> None:
        self.name = name
        self.python_name = name + "_" if iskeyword(name) else name
        self.required = required
        self.default = schema.get("default", NOT_GIVEN)
        self.annotation = _annotation(schema)
        self.description = _description(schema)
        # Marks of tools that are written in Python: the parameter takes values that JSON cannot say, or is `*args`.
        self.takes_python = bool(schema.get("x-python-value"))
        self.takes_rest = bool(schema.get("x-python-rest"))
        self.is_positional = bool(schema.get("x-python-position"))


def parameters(schema: dict[str, Any]) -> list[Parameter]:
    """Required ones first, in the order in which the schema requires them: property order may be lost on the way here."""
    properties: dict[str, Any] = schema.get("properties") or {}
    required = [name for name in schema.get("required") or [] if name in properties and name != _PURPOSE]
    optional = [name for name in properties if name not in required and name != _PURPOSE]
    names = [*required, *optional, *([_PURPOSE] if _PURPOSE in properties else [])]
    definitions = schema.get("$defs") or {}
    return [Parameter(name, _resolved(properties[name], definitions), name in required) for name in names]


def signature(parameters: list[Parameter]) -> Signature:
    import inspect

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    empty = inspect.Parameter.empty
    shown = [
        inspect.Parameter(
            parameter.python_name,
            kind,
            default=empty if parameter.required else parameter.default,
            annotation=empty if parameter.annotation is ... else parameter.annotation,
        )
        for parameter in parameters
        if parameter.python_name.isidentifier()
    ]
    return inspect.Signature(shown)


def documentation(description: str, parameters: list[Parameter]) -> str:
    lines = [description.strip() or "A tool of the host."]
    if parameters:
        lines += ["", "Args:"]
        for parameter in parameters:
            kind = "" if parameter.annotation is ... else f" ({_type_text(parameter.annotation)})"
            words = [parameter.description] if parameter.description else []
            if not parameter.required:
                words.append("Optional.")
            lines.append(f"    {parameter.python_name}{kind}: {' '.join(words)}".rstrip(": "))
    return "\n".join(lines)


def _resolved(schema: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(schema, dict):
        return {}
    target = schema.get("$ref")
    if isinstance(target, str):
        found = definitions.get(target.rpartition("/")[2])
        if isinstance(found, dict):
            return {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def _annotation(schema: dict[str, Any]) -> Any:
    """`str`, `list[int]`, `str | None`; `...` where the schema does not say."""
    kind = schema.get("type")
    choices = [{"type": name} for name in kind] if isinstance(kind, list) else schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, list):
        found = [_annotation(choice) for choice in choices if isinstance(choice, dict)]
        if not found or ... in found:
            return ...
        union = found[0]
        for other in found[1:]:
            union = union | other if union is not None else other | None
        return union
    if not isinstance(kind, str) or kind not in _TYPES:
        return ...
    items = schema.get("items")
    if kind == "array" and isinstance(items, dict):
        item = _annotation(items)
        return list if item is ... or item is None else BUILTINS["list"][item]
    return _TYPES[kind]


def _description(schema: dict[str, Any]) -> str:
    text = str(schema.get("description") or "").strip()
    values = schema.get("enum")
    if isinstance(values, list):
        text = f"{text} One of {', '.join([repr(value) for value in values])}.".strip()
    return text


def _type_text(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) and type(annotation) is type else str(annotation)
