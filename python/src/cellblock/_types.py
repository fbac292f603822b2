"""Python types as checks of values and as JSON schemas, for values of cells, arguments of tools and answers of templates.

Own rules for the types of the standard library, so that nothing depends on what is installed; pydantic is asked for its models
and for types that are not known here.
"""

from __future__ import annotations

import types
import typing
from typing import Any, Literal, Union

from ._literals import Instance
from .errors import WrongValue

Schema = dict[str, Any]
_UNIONS = (Union, types.UnionType)
_NAMED: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array", "uniqueItems": True},
    frozenset: {"type": "array", "uniqueItems": True},
    dict: {"type": "object"},
    bytes: {"type": "string", "contentEncoding": "base64"},
}
# Types of the standard library that are written as texts, with the module they are in, so that none is imported for nothing.
_TEXTS = {
    ("datetime", "datetime"): "date-time",
    ("datetime", "date"): "date",
    ("datetime", "time"): "time",
    ("decimal", "Decimal"): "decimal",
    ("uuid", "UUID"): "uuid",
    ("pathlib", "Path"): "path",
    ("pathlib", "PurePath"): "path",
    ("pathlib", "PurePosixPath"): "path",
    ("pathlib", "PosixPath"): "path",
}


def convert(value: Any, kind: Any, place: str = "the value") -> Any:
    """The value as one of this type. Only conversions that lose nothing are made: 2 to a float, a list to a tuple.

    Raises `WrongValue`, which names the place, what was expected and what came.
    """
    if kind is Any or kind is object:
        return _without_instances(value, place)
    if kind is None or kind is type(None):
        return _checked(value, value is None, "None", place)
    if isinstance(kind, type) and not typing.get_origin(kind) and kind in _PLAIN:
        return _plain(value, kind, place)
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return convert(value, typing.get_args(kind)[0], place)
    if origin is Literal:
        choices = typing.get_args(kind)
        found = [choice for choice in choices if choice == value and type(choice) is type(value)]
        return found[0] if found else _wrong(value, f"one of {', '.join(map(repr, choices))}", place)
    if origin in _UNIONS:
        return _union(value, typing.get_args(kind), place)
    if origin is not None:
        return _container(value, origin, typing.get_args(kind), place)
    if isinstance(kind, type):
        return _class(value, kind, place)
    supertype = getattr(kind, "__supertype__", None)
    if supertype is not None:  # typing.NewType
        return convert(value, supertype, place)
    return _by_pydantic(value, kind, place)


def schema_of(kind: Any) -> Schema:
    """The JSON schema of a type. Raises `TypeError` for one that JSON cannot say."""
    if kind in _NAMED if _is_hashable(kind) else False:
        return dict(_NAMED[kind])
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        words = [note for note in arguments[1:] if isinstance(note, str)]
        return {**schema_of(arguments[0]), **({"description": words[0]} if words else {})}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in _UNIONS:
        return {"anyOf": [schema_of(argument) for argument in arguments]}
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is ...):
        return {"type": "array", "prefixItems": [schema_of(item) for item in arguments], "minItems": len(arguments),
                "maxItems": len(arguments)}  # fmt: skip
    if _is_kind_of(origin, dict) or getattr(origin, "__name__", "") in ("Mapping", "MutableMapping"):
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if isinstance(origin, type) and arguments:
        unique = {"uniqueItems": True} if _is_kind_of(origin, (set, frozenset)) else {}
        return {"type": "array", "items": schema_of(arguments[0]), **unique}
    if isinstance(kind, type):
        return _class_schema(kind)
    supertype = getattr(kind, "__supertype__", None)
    if supertype is not None:
        return schema_of(supertype)
    raise TypeError(f"{kind!r} cannot be written as JSON")


def describe_type(kind: Any) -> str:
    """A type as a person writes it: `list[int]`, `Point`."""
    return kind.__name__ if isinstance(kind, type) and not typing.get_origin(kind) else str(kind).replace("typing.", "")


_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict)


def _plain(value: Any, kind: type, place: str) -> Any:
    if type(value) is kind:
        return _without_instances(value, place)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is complex and isinstance(value, (int, float)) and not isinstance(value, bool):
        return complex(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind in (list, tuple, set, frozenset) and isinstance(value, (list, tuple, set, frozenset)):
        return _collect(kind, list(_without_instances(value, place)), place)
    if kind is dict and isinstance(value, Instance) and not value.arguments:
        return _without_instances(value.fields, place)
    if kind is bytes and isinstance(value, bytearray):
        return bytes(value)
    return _wrong(value, kind.__name__, place)


def _collect(kind: Any, items: list[Any], place: str) -> Any:
    try:
        return kind(items)
    except TypeError:
        return _wrong(items, f"a {kind.__name__} of items that can be hashed", place)


def _union(value: Any, choices: tuple[Any, ...], place: str) -> Any:
    # An exact type first, so that `int | float` leaves 2 an int.
    for choice in choices:
        if type(value) is choice:
            return convert(value, choice, place)
    for choice in choices:
        try:
            return convert(value, choice, place)
        except WrongValue:
            continue
    return _wrong(value, " or ".join(describe_type(choice) for choice in choices), place)


def _container(value: Any, origin: Any, arguments: tuple[Any, ...], place: str) -> Any:
    name = getattr(origin, "__name__", "")
    if _is_kind_of(origin, dict) or name in ("Mapping", "MutableMapping"):
        value = value.fields if isinstance(value, Instance) and not value.arguments else value
        _checked(value, isinstance(value, dict), "a dict", place)
        key_kind, item_kind = arguments
        return {
            convert(key, key_kind, f"a key of {place}"): convert(item, item_kind, f"{place}[{key!r}]")
            for key, item in value.items()
        }
    _checked(value, isinstance(value, (list, tuple, set, frozenset)), describe_type(origin), place)
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is ...):
        _checked(value, len(value) == len(arguments), f"{len(arguments)} items", place)
        pairs = zip(value, arguments, strict=True)
        return tuple(convert(item, kind, f"{place}[{index}]") for index, (item, kind) in enumerate(pairs))
    items = [convert(item, arguments[0], f"{place}[{index}]") for index, item in enumerate(value)]
    if name in ("Sequence", "Iterable", "Collection", "MutableSequence") or origin is list:
        return items
    return _collect(set if name in ("Set", "MutableSet") else origin, items, place)


def _class(value: Any, kind: type, place: str) -> Any:
    if not _is_typed_dict(kind) and isinstance(value, kind):
        return value
    if _is_kind_of(kind, _enum()):
        return _enumerated(value, kind, place)
    if (kind.__module__, kind.__name__) in _TEXTS or kind.__module__ in ("datetime", "pathlib", "uuid", "decimal"):
        return _from_text(value, kind, place)
    if _is_pydantic_model(kind):
        return _by_pydantic(value, kind, place)
    fields = _fields_of(kind)
    if fields is None:
        return _by_pydantic(value, kind, place)
    given: Any = value
    if isinstance(value, Instance) and value.name == kind.__name__:
        given = {**dict(zip(fields, value.arguments, strict=False)), **value.fields}
    if isinstance(value, (list, tuple)) and issubclass(kind, tuple):
        given = dict(zip(fields, value, strict=False))
    _checked(given, isinstance(given, dict), kind.__name__, place)
    unknown = [name for name in given if name not in fields]
    missing = [name for name, (_, required) in fields.items() if required and name not in given]
    if unknown or missing:
        problem = f"no field {', '.join(map(str, unknown))}" if unknown else f"a field {', '.join(missing)}"
        return _wrong(given, f"{kind.__name__} with {problem}", place)
    made = {name: convert(item, fields[name][0], f"{place}.{name}") for name, item in given.items()}
    return made if _is_typed_dict(kind) else kind(**made)


def _enumerated(value: Any, kind: Any, place: str) -> Any:
    if isinstance(value, Instance):
        return _wrong(value, kind.__name__, place)
    for member in kind:
        if value == member.value or value == member.name:
            return member
    return _wrong(value, f"one of {', '.join(repr(member.value) for member in kind)}", place)


def _from_text(value: Any, kind: Any, place: str) -> Any:
    if not isinstance(value, (str, int) if kind.__name__ == "Decimal" else str) and not hasattr(value, "__fspath__"):
        return _wrong(value, kind.__name__, place)
    try:
        return kind.fromisoformat(value) if hasattr(kind, "fromisoformat") else kind(value)
    except Exception as error:
        return _wrong(value, f"{kind.__name__} ({error})", place)


def _fields_of(kind: Any) -> dict[str, tuple[Any, bool]] | None:
    """The fields of a dataclass, a `NamedTuple` or a `TypedDict`: their types, and whether they are required."""
    if hasattr(kind, "__dataclass_fields__"):
        import dataclasses

        hints = typing.get_type_hints(kind, include_extras=True)
        return {
            field.name: (
                hints[field.name],
                field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
            )
            for field in dataclasses.fields(kind)
            if field.init
        }
    if _is_typed_dict(kind):
        hints = typing.get_type_hints(kind)
        return {name: (hint, name in kind.__required_keys__) for name, hint in hints.items()}
    if _is_kind_of(kind, tuple) and hasattr(kind, "_field_defaults"):
        hints = typing.get_type_hints(kind)
        return {name: (hints.get(name, Any), name not in kind._field_defaults) for name in kind._fields}
    return None


def _class_schema(kind: Any) -> Schema:
    text_format = _TEXTS.get((kind.__module__, kind.__name__)) or (_TEXTS.get((kind.__module__.partition(".")[0], kind.__name__)))
    if text_format is not None:
        return {"type": "string", "format": text_format}
    if _is_kind_of(kind, _enum()):
        return {"enum": [member.value for member in kind]}
    if _is_pydantic_model(kind):
        made: Schema = kind.model_json_schema()
        return made
    fields = _fields_of(kind)
    if fields is None:
        raise TypeError(f"{kind.__name__} cannot be written as JSON; use plain types, dataclasses, enums or pydantic models")
    return {
        "type": "object",
        "properties": {name: schema_of(hint) for name, (hint, _) in fields.items()},
        "required": [name for name, (_, required) in fields.items() if required],
        "additionalProperties": False,
    }


def _by_pydantic(value: Any, kind: Any, place: str) -> Any:
    try:
        from pydantic import TypeAdapter, ValidationError
        from pydantic.errors import PydanticSchemaGenerationError
    except ImportError:
        return _wrong(value, f"{describe_type(kind)}, a type that needs pydantic, which is not installed", place)
    try:
        return TypeAdapter(kind).validate_python(_as_data(value))
    except ValidationError as error:
        details = "; ".join(f"{'.'.join(map(str, item['loc'])) or place}: {item['msg']}" for item in error.errors()[:5])
        return _wrong(value, f"{describe_type(kind)} ({details})", place)
    except PydanticSchemaGenerationError:
        return _wrong(value, f"{describe_type(kind)}, a type that cannot be made from data", place)


def _as_data(value: Any) -> Any:
    """The value with objects as dicts of their fields."""
    if isinstance(value, Instance):
        return {name: _as_data(item) for name, item in value.fields.items()}
    if isinstance(value, dict):
        return {key: _as_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_data(item) for item in value]
    return value


def _without_instances(value: Any, place: str) -> Any:
    if isinstance(value, Instance):
        return _wrong(value, "plain data (ask for a type, such as `value(Point)`, to get an object)", place)
    if isinstance(value, dict):
        for key, item in value.items():
            _without_instances(item, f"{place}[{key!r}]")
    elif isinstance(value, (list, tuple, set, frozenset)):
        for index, item in enumerate(value):
            _without_instances(item, f"{place}[{index}]")
    return value


def _checked(value: Any, is_right: bool, expected: str, place: str) -> Any:
    return value if is_right else _wrong(value, expected, place)


def _wrong(value: Any, expected: str, place: str) -> Any:
    shown = repr(value)
    shown = shown if len(shown) <= 100 else shown[:100] + "…"
    raise WrongValue(f"{place}: expected {expected}, got {shown}", "value")


def _is_kind_of(kind: Any, of: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, of)


def _is_typed_dict(kind: Any) -> bool:
    return _is_kind_of(kind, dict) and hasattr(kind, "__required_keys__")


def _is_pydantic_model(kind: Any) -> bool:
    return hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate")


def _is_hashable(kind: Any) -> bool:
    try:
        hash(kind)
    except TypeError:
        return False
    return True


def _enum() -> type:
    from enum import Enum

    return Enum
