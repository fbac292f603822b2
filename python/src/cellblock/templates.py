"""Functions whose body is their docstring: a model fills them in, with code that really runs."""

from __future__ import annotations

import functools
import inspect
import json
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

from ._seeds import seeds_from
from ._types import convert, schema_of
from .agent import Agent, AsyncAgent, Outcome, _Run
from .errors import WrongValue

P = ParamSpec("P")
R = TypeVar("R")

# What a scope may bring along, as JSON: a module full of data is not meant.
_MAX_SCOPE_BYTES = 64_000


class Template(Generic[P, R]):
    """A function that a model fills in. `@template` makes one; calling it is a run of its own.

    The docstring is the question. The arguments, and plain data of the scope in which it was defined, are variables of the
    session that lives for this one call. The answer is checked against the return type.
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
        with self._begin(args, kwargs) as run:
            return Agent(**self._options)._finish(run)

    async def run_async(self, *args: P.args, **kwargs: P.kwargs) -> Outcome[R]:
        """Like `run`, for programs with an event loop."""
        with self._begin(args, kwargs) as run:
            return await AsyncAgent(**self._options)._finish(run)

    async def _answer_async(self, *args: Any, **kwargs: Any) -> Any:
        return (await self.run_async(*args, **kwargs)).check()

    def _begin(self, args: Any, kwargs: Any) -> _Run:
        hints = typing.get_type_hints(self._function, localns=self._scope, include_extras=True)
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        name = self._function.__name__
        given = {key: _plain(value, hints.get(key, Any), f"{name}: {key}") for key, value in bound.arguments.items()}
        scope = {key: value for key, value in data_of(self._scope, self._function).items() if key not in given}
        returns = hints.get("return", Any)
        front = {
            "name": name,
            "code": self._code,
            "params": {key: schema_of(hints.get(key, Any)) for key in given} | dict.fromkeys(scope, "any"),
            "returns": schema_of(returns),
        }
        # What is null has no place in TOML, so the scope travels as arguments do.
        text = f"+++\n{_toml(front)}+++\n{self.question}\n"
        return _Run.of_template(text, {**given, **scope}, returns)


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
    Plain data of the scope where it is defined (numbers, texts, lists, dicts) is seen by the code; functions of that scope cannot
    be called by it in this version. Raises `AgentFailed` when a run gives no answer.
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
