"""Runs in the session of tools that are written in Python: finds the functions, describes them, and calls them."""

from __future__ import annotations

import base64
import builtins
import dataclasses
import enum
import importlib.util
import inspect
import json
import os
import re
import sys
import types
import typing

from cellblock_guest import tagged

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_functions: dict = {}


class _Refused(Exception):
    """A file or a function that cannot be used, in words for its author."""


def tool(function=None, *, name=None, effects=None, time_limit=None):
    """Say more about a tool: another name, `effects="outside"` for what cannot be taken back, a time limit in seconds."""
    if effects not in (None, "none", "outside"):
        raise _Refused(f"effects must be 'none' or 'outside', not {effects!r}")

    def mark(function):
        function.__cellblock_tool__ = {"name": name, "effects": effects, "time_limit": time_limit}
        return function

    return mark if function is None else mark(function)


def load(directory: str, secrets: dict) -> list:
    """Every tool of every file: its definition as JSON data."""
    os.environ.update(secrets)
    builtins.tool = tool
    sys.path.insert(0, directory)
    definitions = []
    for file in sorted(os.listdir(directory)):
        if not file.endswith(".py") or file.startswith("_"):
            continue
        for function in _public_functions(_module(directory, file)):
            definition = _definition(function, file)
            if definition["name"] in _functions:
                raise _Refused(f"{file}: a tool called {definition['name']!r} is already defined in another file")
            _functions[definition["name"]] = function
            definitions.append(definition)
    return definitions


def call(name: str, arguments: str, wait) -> dict:
    """Call a tool, and return its result as the host takes it. `wait` waits for what an `async def` tool returns."""
    function = _functions[name]
    hints = typing.get_type_hints(function, include_extras=True)
    given = {key: _from_json(tagged.decode(value), hints.get(key, typing.Any)) for key, value in json.loads(arguments).items()}
    positional, rest = [], []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = given.pop(parameter.name, [])
        elif parameter.kind is parameter.POSITIONAL_ONLY and parameter.name in given:
            positional.append(given.pop(parameter.name))
    if rest:  # what comes before `*args` must be given by position too
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                positional.append(given.pop(parameter.name, parameter.default))
    result = function(*positional, *rest, **given)
    return _to_json(wait(result) if inspect.isawaitable(result) else result)


def _module(directory: str, file: str):
    specification = importlib.util.spec_from_file_location(file[:-3], os.path.join(directory, file))
    module = importlib.util.module_from_spec(specification)
    sys.modules[file[:-3]] = module
    try:
        specification.loader.exec_module(module)
    except _Refused as error:
        raise _Refused(f"{file}: {error}") from None
    except BaseException as error:
        line = next((frame.lineno for frame in reversed(_frames(error)) if frame.filename.endswith(file)), None)
        line = getattr(error, "lineno", None) or line
        raise _Refused(f"{file}{f', line {line}' if line else ''}: {type(error).__name__}: {error}") from None
    return module


def _frames(error):
    import traceback

    return traceback.extract_tb(error.__traceback__)


def _public_functions(module):
    for name, value in vars(module).items():
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_"):
            yield value


def _definition(function, file: str) -> dict:
    where = f"{file}: {function.__name__}()"
    description, documented = _documentation(function)
    description = description or function.__name__.replace("_", " ").capitalize() + "."
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise _Refused(f"{where}: its types cannot be read: {error}") from None
    properties, required, takes_more = {}, [], False
    parameters = inspect.signature(function).parameters.values()
    has_rest = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    for parameter in parameters:
        hint = hints.get(parameter.name, typing.Any)
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_more = True
            continue
        schema = _schema(hint, f"{where}: the parameter {parameter.name!r}")
        if parameter.kind is parameter.VAR_POSITIONAL:
            schema = {"type": "array", "items": schema, "default": [], "x-python-rest": True}
            properties[parameter.name] = schema
            continue
        if has_rest and parameter.kind is not parameter.KEYWORD_ONLY:
            schema["x-python-position"] = True
        if "type" not in schema and "enum" not in schema and "anyOf" not in schema:
            schema["x-python-value"] = True
        if parameter.name in documented:
            schema = {"description": documented[parameter.name], **schema}
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        else:
            try:
                schema["default"] = json.loads(json.dumps(parameter.default, default=_plain))
            except TypeError:
                pass
        properties[parameter.name] = schema
    marks = getattr(function, "__cellblock_tool__", {})
    return {
        "name": marks.get("name") or function.__name__,
        "description": description,
        "effects": marks.get("effects"),
        "time_limit": marks.get("time_limit"),
        "parameters": {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": takes_more,
        },
    }


def _documentation(function) -> tuple:
    """The description, and what is said of each parameter under `Args:`."""
    text = inspect.getdoc(function) or ""
    head, *rest = re.split(r"^(?:Args|Arguments|Parameters):\s*$", text, maxsplit=1, flags=re.MULTILINE)
    documented: dict = {}
    current = None
    for line in (rest[0] if rest else "").splitlines():
        if line and not line[0].isspace():  # the next section
            break
        match = re.match(r"^\s{1,8}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$", line)
        if match:
            current = match[1]
            documented[current] = match[2].strip()
        elif current and line.strip():
            documented[current] += " " + line.strip()
    head = re.split(r"^(?:Returns|Raises|Yields|Examples?):\s*$", head, maxsplit=1, flags=re.MULTILINE)[0]
    return head.strip(), documented


def _schema(hint, where: str) -> dict:
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if hint is typing.Any or hint is object:
        return {}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        words = [word for word in arguments[1:] if isinstance(word, str)]
        schema = _schema(arguments[0], where)
        return {"description": words[0], **schema} if words else schema
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        branches = [_schema(argument, where) for argument in arguments]
        kinds = [branch["type"] for branch in branches if set(branch) == {"type"}]
        return {"type": kinds} if len(kinds) == len(branches) else {"anyOf": branches}
    if hint in (list, tuple, set, frozenset):
        return {"type": "array"}
    if origin in (list, set, frozenset) or str(origin) == "<class 'collections.abc.Sequence'>":
        return {"type": "array", "items": _schema(arguments[0], where)}
    if origin is tuple:
        inner = [argument for argument in arguments if argument is not Ellipsis]
        schema = {"type": "array", "items": _schema(inner[0], where)} if len(set(inner)) == 1 else {"type": "array"}
        return schema if Ellipsis in arguments else {**schema, "minItems": len(inner), "maxItems": len(inner)}
    if hint is dict or hint in (bytes, bytearray, complex):
        return {} if hint is not dict else {"type": "object"}
    if origin is dict and arguments[0] is not str:
        return {"description": f"A dict with keys of the type {getattr(arguments[0], '__name__', arguments[0])}."}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1], where)}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        fields = dataclasses.fields(hint)
        missing = dataclasses.MISSING
        return {
            "type": "object",
            "properties": {field.name: _schema(hints[field.name], where) for field in fields},
            "required": [field.name for field in fields if field.default is missing and field.default_factory is missing],
            "additionalProperties": False,
        }
    if typing.is_typeddict(hint):
        hints = typing.get_type_hints(hint)
        return {
            "type": "object",
            "properties": {name: _schema(inner, where) for name, inner in hints.items()},
            "required": [name for name in hints if name in hint.__required_keys__],
            "additionalProperties": False,
        }
    raise _Refused(f"{where} has the type {hint!r}, which has no form in JSON")


def _from_json(value, hint):
    """Arguments came as JSON: make of them what the function asks for."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _from_json(value, arguments[0])
    if origin in (typing.Union, types.UnionType):
        fitting = next((branch for branch in arguments if _fits(value, branch)), typing.Any)
        return _from_json(value, fitting)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        hints = typing.get_type_hints(hint)
        return hint(**{name: _from_json(inner, hints[name]) for name, inner in value.items()})
    if isinstance(value, list):
        inner = arguments[0] if arguments else typing.Any
        items = [_from_json(item, inner) for item in value]
        kind = origin or hint
        return kind(items) if kind in (tuple, set, frozenset) else items
    if hint is float and isinstance(value, int):
        return float(value)
    if origin is dict and isinstance(value, dict) and arguments[0] in (int, float):
        return {arguments[0](key): _from_json(item, arguments[1]) for key, item in value.items()}
    if hint in (bytes, bytearray) and isinstance(value, str):  # a model writes text
        return hint(value.encode())
    return value


def _fits(value, hint) -> bool:
    """Whether a value of a union is meant for this one of its types."""
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return any(member.value == value for member in hint)
    if isinstance(value, dict):
        return dataclasses.is_dataclass(hint)
    if isinstance(value, list):
        return (typing.get_origin(hint) or hint) in (list, tuple, set, frozenset)
    return False


def _to_json(result) -> dict:
    if isinstance(result, str):
        return {"kind": "text", "data": result}
    if isinstance(result, (bytes, bytearray)) and len(result) > _MAX_VALUE_BYTES:
        return {"kind": "application/octet-stream", "data": base64.b64encode(result).decode()}
    for method, mime in (("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg")):
        if callable(getattr(type(result), method, None)):
            data = getattr(result, method)()
            if data is not None:
                return {"kind": mime, "data": data if isinstance(data, str) else base64.b64encode(data).decode()}
    if type(result).__name__ == "Figure" and hasattr(result, "savefig"):
        import io

        buffer = io.BytesIO()
        result.savefig(buffer, format="png")
        return {"kind": "image/png", "data": base64.b64encode(buffer.getvalue()).decode()}
    data = _encode(result)
    text = json.dumps(data, ensure_ascii=False)
    if len(text) > _MAX_VALUE_CHARACTERS:
        import zlib

        packed = zlib.compress(text.encode(), 1)
        return {"kind": "application/vnd.cellblock.value+zlib", "data": base64.b64encode(packed).decode()}
    if tagged.TAG not in text:
        return {"kind": "json", "data": data}
    readable = _readable(result)
    return {"kind": "value", "data": data, "text": readable if isinstance(readable, str) else _as_json(readable)}


def _as_json(value) -> str:
    return json.dumps(value, ensure_ascii=False)


# Bytes up to this many are values of Python; more of them are a handle.
_MAX_VALUE_BYTES = 1_000_000
# Other values with more characters of JSON than this are a handle, whose `.value()` is the value.
_MAX_VALUE_CHARACTERS = 4_000_000
# The most items of an array that a model reads.
_MAX_READABLE_ITEMS = 1000


def _encode(value):
    """A value as JSON data, with tags for what JSON cannot say."""
    return tagged.encode(value, f"a tool returned {type(value).__name__}", other=_encode_other)


def _encode_other(value, _what: str):
    if isinstance(value, (str, int, float)) and not isinstance(value, enum.Enum):
        return _encode(next(base(value) for base in (str, int, float) if isinstance(value, base)))
    if isinstance(value, (list, tuple)):
        return [_encode(item) for item in value]
    return _encode(_plain(value))


def _readable(value):
    """A value as a model reads it: tuples and sets as lists, numbers and bytes as text, tables by their rows."""
    kind = type(value)
    module = str(kind.__module__).partition(".")[0]
    if kind is dict:
        return {key if type(key) is str else str(_readable(key)): _readable(item) for key, item in value.items()}
    if kind in (list, tuple):
        return [_readable(item) for item in value]
    if kind in (set, frozenset):
        return [_readable(item) for item in sorted(value, key=repr)]
    if kind in (bytes, bytearray):
        return f"[application/octet-stream, {len(value)} bytes]"
    if kind is complex or kind is float and value - value != 0.0:
        return repr(value)
    if module == "numpy" and kind.__name__ == "ndarray":
        is_short = value.size <= _MAX_READABLE_ITEMS
        return _readable(value.tolist()) if is_short else f"array of {value.dtype} with the shape {value.shape}"
    if module == "pandas" and kind.__name__ == "Series":
        return _readable(value.tolist() if type(value.index).__name__ == "RangeIndex" else value.to_dict())
    if module == "pandas" and kind.__name__ == "DataFrame":
        table = value if type(value.index).__name__ == "RangeIndex" else value.reset_index()
        names = [str(name) for name in table.columns.tolist()]
        return [dict(zip(names, map(_readable, row))) for row in table.itertuples(index=False, name=None)]
    return value if value is None or kind in (str, int, float, bool) else _readable(_plain(value))


def _plain(value):
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    for method in ("isoformat", "tolist", "to_dict"):
        convert = getattr(value, method, None)
        if callable(convert):
            return convert()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a tool returned {type(value).__name__}, which has no form in JSON")
