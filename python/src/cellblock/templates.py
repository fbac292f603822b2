"""Functions whose body is their docstring: a model fills them in, with code that really runs."""

from __future__ import annotations

import contextvars
import functools
import inspect
import json
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

from ._seeds import seeds_from
from ._types import convert, schema_of
from .agent import Agent, AsyncAgent, _Run
from .errors import WrongValue
from .outcomes import Outcome
from .tools import Tool

P = ParamSpec("P")
R = TypeVar("R")

# What a scope may bring along, as JSON: a module full of data is not meant.
_MAX_SCOPE_BYTES = 64_000
# The most functions of a scope that are offered.
_MAX_SCOPE_TOOLS = 64

# The names that a running template was given: those that it calls see them, too.
_parents: contextvars.ContextVar[Mapping[str, Any] | None] = contextvars.ContextVar("cellblock_template_names", default=None)


class Template(Generic[P, R]):
    """A function that a model fills in. `@template` makes one; calling it is a run of its own.

    The docstring is the question. The arguments, and plain data of the scope in which it was defined, are variables of the
    session that lives for this one call. Functions and other templates of that scope are tools, which run in this process. A
    template that is called by another sees the names of its caller, and never the reverse. The answer is checked against the
    return type.
    """

    def __init__(self, function: Callable[P, R], scope: dict[str, Any], *, code: bool, options: dict[str, Any]) -> None:
        self.question = inspect.getdoc(function) or ""
        if not self.question:
            raise TypeError(f"{function.__name__} cannot be a template: it has no docstring, which is the question")
        self._function = function
        self._scope = scope
        self._code = code
        self._options = options
        self._signature = inspect.signature(function)
        # Names that are defined later in the module, such as classes, are looked up when it is called.
        self._is_async = inspect.iscoroutinefunction(function)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:  # noqa: D102
        if self._is_async:
            return typing.cast("R", self._answer_async(*args, **kwargs))
        return self.run(*args, **kwargs).check()

    def run(self, *args: P.args, **kwargs: P.kwargs) -> Outcome[R]:
        """Calls it and gives the whole outcome instead of the answer alone."""
        run, names = self._begin(args, kwargs)
        token = _parents.set(names)
        try:
            return Agent(**self._options)._finish(run)
        finally:
            _parents.reset(token)

    async def run_async(self, *args: P.args, **kwargs: P.kwargs) -> Outcome[R]:
        """Like `run`, for programs with an event loop."""
        run, names = self._begin(args, kwargs)
        token = _parents.set(names)
        try:
            return await AsyncAgent(**self._options)._finish(run)
        finally:
            _parents.reset(token)

    def as_tool(self) -> Tool[..., Any]:
        """The template as a tool of another run. Its runs have no time limit but their own."""
        call: Any = self._function
        made: Tool[..., Any] = Tool(call, timeout=None)
        made.function = self
        made.is_async = self._is_async
        return made

    async def _answer_async(self, *args: Any, **kwargs: Any) -> Any:
        return (await self.run_async(*args, **kwargs)).check()

    def _begin(self, args: Any, kwargs: Any) -> tuple[_Run, dict[str, Any]]:
        hints = typing.get_type_hints(self._function, localns=self._scope, include_extras=True)
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        name = self._function.__name__
        given = {key: _plain(value, hints.get(key, Any), f"{name}: {key}") for key, value in bound.arguments.items()}
        visible = {**(_parents.get() or {}), **data_of(self._scope, self._function)}
        scope = {key: value for key, value in visible.items() if key not in given}
        returns = hints.get("return", Any)
        front = {
            "name": name,
            "code": self._code,
            "params": {key: schema_of(hints.get(key, Any)) for key in given} | dict.fromkeys(scope, "any"),
            "returns": schema_of(returns),
        }
        # What is null has no place in TOML, so the scope travels as arguments do.
        text = f"+++\n{_toml(front)}+++\n{self.question}\n"
        names = {**scope, **given}
        tools = {} if "tools" in self._options else tools_of(self._scope, self._function, without=set(names))
        return _Run.of_template(text, names, returns, tools), names


@overload
def template(function: Callable[P, R], /) -> Template[P, R]: ...
@overload
def template(*, model: str | None = None, code: bool = True, **options: Any) -> Callable[[Callable[P, R]], Template[P, R]]: ...
def template(
    function: Callable[P, R] | None = None, /, *, model: str | None = None, code: bool = True, **options: Any
) -> Template[P, R] | Callable[[Callable[P, R]], Template[P, R]]:
    """Makes a function whose body is its docstring one that a model fills in:

        @template(model="gpt-4o-mini")
        def outliers(readings: list[float], limit: float = 1) -> int:
            "How many of `readings` lie more than `limit` population standard deviations from their mean?"

        outliers([12, 19, 23, 31, 8, 27])   # 2

    `code=False` lets the model answer without running code. The other options are those of `Agent`. An `async def` is awaited.
    Plain data of the scope where it is defined (numbers, texts, lists, dicts) is seen by the code, and functions and templates of
    that scope can be called by it: they run in this process. `tools=[...]` names the functions instead; `tools=[]` offers none.
    Raises `AgentFailed` when a run gives no answer.
    """
    frame = sys._getframe(1)
    # Inside a function or a class, what is bound there is the scope, too. It is looked at when the template is called.
    local = frame.f_locals if frame.f_locals is not frame.f_globals else {}

    def make(function: Callable[P, R]) -> Template[P, R]:
        return Template(function, dict(local), code=code, options={"model": model, **options})

    return make(function) if function is not None else make


def data_of(local: dict[str, Any], function: Callable[..., Any]) -> dict[str, Any]:
    """The plain data of a function's lexical scope: its closure and locals before its globals. What is too large is left out."""
    found: dict[str, Any] = {}
    size = 0
    for name, value in {**function.__globals__, **local}.items():
        if name.startswith("_") or isinstance(value, (types.ModuleType, type)) or callable(value):
            continue
        try:
            seeds = seeds_from({name: value})
            size_of = len(json.dumps(seeds.variables[name]))
        except (WrongValue, KeyError, ValueError, RecursionError):
            continue  # no plain data
        if not isinstance(value, bytes) and size + size_of <= _MAX_SCOPE_BYTES:
            found[name] = value
            size += size_of
    return found


def tools_of(local: dict[str, Any], function: Callable[..., Any], *, without: set[str]) -> dict[str, Tool[..., Any]]:
    """The functions and templates of a function's lexical scope, as tools. Names in `without` are left out.

    Functions must be documented, typed, and of the same module: what is imported is not meant.
    """
    found: dict[str, Tool[..., Any]] = {}
    for name, value in {**function.__globals__, **local}.items():
        is_own = getattr(value, "__module__", None) == function.__module__
        is_function = isinstance(value, (types.FunctionType, Tool, Template))
        if name.startswith("_") or not is_function or name in without or getattr(value, "__wrapped__", None) is function:
            continue
        if isinstance(value, Tool):
            found[name] = value
        elif isinstance(value, Template):
            found[name] = value.as_tool()
        elif is_own and value is not function and inspect.getdoc(value):
            try:
                found[name] = Tool(value)
            except TypeError:
                continue  # its parameters cannot be said in JSON
        if len(found) >= _MAX_SCOPE_TOOLS:
            break
    return found


def _plain(value: Any, kind: Any, place: str) -> Any:
    from .tools import plain_result

    return plain_result(convert(value, kind, place))


def _toml(front: dict[str, Any]) -> str:
    """The front matter of a template file."""
    lines = [
        f"name = {_toml_value(front['name'])}",
        f"code = {_toml_value(front['code'])}",
        f"returns = {_toml_value(front['returns'])}",
    ]
    lines.append("[params]")
    lines += [f"{_toml_value(name)} = {_toml_value(schema)}" for name, schema in front["params"].items()]
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{_toml_value(key)} = {_toml_value(item)}" for key, item in value.items() if item is not None)
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item) for item in value if item is not None) + "]"
    # Texts, numbers and booleans are written alike in both, but for what JSON leaves as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
