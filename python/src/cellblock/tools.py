"""Functions of your program that code in a session can call."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

from ._types import convert, schema_of
from .errors import WrongValue

P = ParamSpec("P")
R = TypeVar("R")

# As long as a call of a tool may take, unless the tool says otherwise.
DEFAULT_TIMEOUT = 120.0


class Tool(Generic[P, R]):
    """A function that code in a session can call. `@tool` makes one; it can still be called as before.

    Its name, description and parameters come from the function: name, docstring and type hints.
    """

    def __init__(
        self, function: Callable[P, R], *, name: str | None = None, changes: bool = False, timeout: float | None = DEFAULT_TIMEOUT
    ) -> None:
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout: expected a positive number of seconds, or None for no limit, got {timeout!r}")
        self.function = function
        self.name: str = name or str(getattr(function, "__name__", type(function).__name__))
        self.description = _description(function)
        self.changes = changes
        self.timeout = timeout
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
        self._kinds, self.parameters = _parameters(function, self.name)
        self.__doc__ = getattr(function, "__doc__", None)
        self.__name__ = self.name
        self.__wrapped__ = function

    @classmethod
    def with_parameters(
        cls, function: Callable[..., Any], name: str, description: str, properties: dict[str, Any], required: list[str]
    ) -> Tool[..., Any]:
        """A tool whose parameters are known as JSON schemas, as those of other frameworks. It has no time limit of its own."""

        def call(**arguments: Any) -> Any:
            return function(**arguments)

        made: Tool[..., Any] = Tool(call, name=name, timeout=None)
        made.description = description
        made.parameters = {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
        made._kinds = dict.fromkeys(properties, Any)
        return made

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:  # noqa: D102
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    def spec(self) -> dict[str, Any]:
        """The tool as the pipe wants it: name, description, JSON schema of the parameters."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}

    def arguments_from(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call as the types that the function wants. Raises `WrongValue` with the field that is wrong."""
        rest = self._kinds.get("**")
        unknown = [] if rest else [name for name in given if name not in self._kinds]
        missing = [name for name in self.parameters.get("required", ()) if name not in given]
        if unknown or missing:
            problem = f"unknown argument {unknown[0]!r}" if unknown else f"missing argument {missing[0]!r}"
            raise WrongValue(f"{self.name}: {problem}; the arguments are {', '.join(self._kinds) or 'none'}", "value")
        return {name: convert(value, self._kinds.get(name, Any), f"{self.name}: {name}") for name, value in given.items()}


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *, name: str | None = None, changes: bool = False, timeout: float | None = DEFAULT_TIMEOUT
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    changes: bool = False,
    timeout: float | None = DEFAULT_TIMEOUT,
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Makes a function a tool: `@tool`, or `@tool(changes=True)` for one that does something no undo brings back.

    - `name`: what code calls it; else the function's own name.
    - `changes`: a session asks its `approve` function before each call, and refuses the call where there is none.
    - `timeout`: seconds after which the code gets a `ToolError`; `None` for no limit. The function itself cannot be stopped:
      it goes on in its thread, and what it returns is dropped.

    Plain functions run on threads, `async` ones on the event loop: of the session if it is an `AsyncSession`, else of a thread
    that the package keeps for that. What they return must be plain data, a dataclass or a pydantic model; an exception is
    raised in the code as `ToolError`.
    """
    if function is not None:
        return Tool(function)
    return lambda function: Tool(function, name=name, changes=changes, timeout=timeout)


def tools_from(given: typing.Iterable[Any]) -> dict[str, Tool[..., Any]]:
    """Tools by name, from tools and plain functions. Raises `ValueError` when two have one name."""
    made: dict[str, Tool[..., Any]] = {}
    for item in given:
        if not callable(item):
            raise TypeError(f"tools: expected functions, got {item!r}")
        one: Tool[..., Any] = item if isinstance(item, Tool) else Tool(item)
        if one.name in made:
            raise ValueError(f"tools: two tools are called {one.name!r}; give one another name: @tool(name=...)")
        made[one.name] = one
    return made


def plain_result(value: Any) -> Any:
    """What a tool returned as JSON data. Raises `TypeError` for what is none, such as an open file."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if value == value and value not in (float("inf"), float("-inf")) else None
    if isinstance(value, dict):
        return {_plain_key(key): plain_result(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        named = getattr(value, "_asdict", None)
        if named is not None:
            return plain_result(named())
        return [plain_result(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return [plain_result(item) for item in value]
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return {name: plain_result(getattr(value, name)) for name in value.__dataclass_fields__}
    return _plain_object(value)


def _plain_object(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)  # pydantic
    if dump is not None and not isinstance(value, type):
        return dump(mode="json")
    if hasattr(value, "isoformat"):  # dates and times
        return value.isoformat()
    module = type(value).__module__.partition(".")[0]
    if module == "enum" or hasattr(type(value), "__members__"):
        return plain_result(value.value)
    if module in ("decimal", "uuid", "pathlib", "fractions"):
        return str(value)
    if module == "numpy" and hasattr(value, "tolist"):
        return plain_result(value.tolist())
    raise TypeError(
        f"it returned a {type(value).__name__}, which cannot cross into the session; "
        "return plain data (texts, numbers, lists, dicts), a dataclass or a pydantic model"
    )


def _plain_key(key: Any) -> str:
    return key if isinstance(key, str) else str(plain_result(key))


def _description(function: Any) -> str:
    text = inspect.getdoc(function) or ""
    return text if text and not (inspect.isclass(type(function)) and text == inspect.getdoc(type(function))) else ""


def _parameters(function: Any, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The types of a function's parameters, and their JSON schema."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} cannot be a tool: its parameters are not known; wrap it into a function with type hints"
        ) from None
    target = function if inspect.isfunction(function) or inspect.ismethod(function) else getattr(function, "__call__", function)  # noqa: B004
    try:
        hints = typing.get_type_hints(target, include_extras=True)
    except Exception as error:
        raise TypeError(f"{name} cannot be a tool: its type hints cannot be read: {error}") from None
    kinds: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in signature.parameters.values():
        hint = hints.get(parameter.name, Any)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            kinds["**"] = hint
            continue
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            raise TypeError(f"{name} cannot be a tool: arguments are passed by name, and {parameter} has none")
        try:
            schema = schema_of(hint)
        except TypeError as error:
            raise TypeError(f"{name} cannot be a tool: parameter {parameter.name}: {error}") from None
        kinds[parameter.name] = hint
        properties[parameter.name] = schema
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
        else:
            _add_default(schema, parameter.default)
    closed = {} if "**" in kinds else {"additionalProperties": False}
    return kinds, {"type": "object", "properties": properties, "required": required, **closed}


def _add_default(schema: dict[str, Any], default: Any) -> None:
    try:
        schema["default"] = plain_result(default)
    except TypeError:
        pass  # it has one, and the session need not know it
