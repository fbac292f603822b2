"""smolagents: its `CodeAgent` runs code in a sealed session.

    from cellblock.smolagents import CellblockExecutor
    from smolagents import CodeAgent

    agent = CodeAgent(tools=[...], model=model, executor=CellblockExecutor())

The tools stay in your process: code in the session calls them there. docs/python/smolagents.md has the rest.
"""

from __future__ import annotations

from typing import Any

from smolagents.local_python_executor import CodeOutput, InterpreterError, PythonExecutor

from ._adapters import session_from
from ._literals import read_repr
from .errors import WrongValue
from .result import Result
from .session import Session
from .tools import Tool

__all__ = ["CellblockExecutor"]

_FINAL = "_CellblockFinalAnswer"
_ANSWER = "_cellblock_answer"
# `final_answer` ends the cell. No `except Exception` of the model's code holds it up.
_FINAL_ANSWER_CODE = f"""\
class {_FINAL}(BaseException):
    pass
def final_answer(*args, **kwargs):
    "Provides a final answer to the given problem."
    global {_ANSWER}
    {_ANSWER} = (args, kwargs)
    raise {_FINAL}(repr((list(map(repr, args)), {{name: repr(value) for name, value in kwargs.items()}})))
"""
_TYPES = {
    "string": "string",
    "boolean": "boolean",
    "integer": "integer",
    "number": "number",
    "array": "array",
    "object": "object",
}


class CellblockExecutor(PythonExecutor):  # type: ignore[misc, unused-ignore]
    """Runs the code of a `CodeAgent` in a session. Takes the options of `Session`, or a `session` that is open already.

    A step that fails raises `InterpreterError` with the traceback, as smolagents expects; what it printed before is in `state`.
    The session is closed by `cleanup()`, which `CodeAgent.cleanup()` calls, if the executor opened it.
    """

    def __init__(self, session: Session | None = None, **options: Any) -> None:
        self.session = session_from(session, options)
        self._owns_session = session is None
        self._final_answer: Any = None
        #: What `CodeAgent` shows of a step that failed.
        self.state: dict[str, Any] = {}

    def send_tools(self, tools: dict[str, Any]) -> None:
        """Offers tools and managed agents to the code. They run in this process."""
        self._final_answer = tools.get("final_answer")
        self.session.set_tools([_tool(name, one) for name, one in tools.items() if name != "final_answer"])
        if self._final_answer is not None:
            self.session.run(_FINAL_ANSWER_CODE).check()

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Binds variables in the session: plain data, arrays and tables. Raises `WrongValue` for others."""
        if variables:
            self.session.seed(variables)

    def __call__(self, code_action: str) -> CodeOutput:
        """Runs one step."""
        result = self.session.run(code_action)
        self.state["_print_outputs"] = result.stdout
        error = result.error
        if error is not None and error.type == _FINAL and self._final_answer is not None:
            args, kwargs = self._final_arguments(error.value)
            return CodeOutput(output=self._final_answer(*args, **kwargs), logs=result.stdout, is_final_answer=True)
        if not result.ok:
            raise InterpreterError(result.failure_text())
        return CodeOutput(output=_value(result), logs=result.stdout, is_final_answer=False)

    def _final_arguments(self, text: str) -> tuple[list[Any], dict[str, Any]]:
        """What `final_answer` was called with. The text has the `repr` of each argument; if it is cut, the variable is read."""
        try:
            if _is_cut(text):
                args, kwargs = self.session[_ANSWER]
                return list(args), dict(kwargs)
            texts, named = read_repr(text)
        except (WrongValue, KeyError):
            return [text], {}
        return [_plain(one) for one in texts], {name: _plain(one) for name, one in named.items()}

    def cleanup(self) -> None:
        """Closes the session, if the executor opened it."""
        if self._owns_session:
            self.session.close()


def _tool(name: str, given: Any) -> Tool[..., Any]:
    inputs: dict[str, dict[str, Any]] = getattr(given, "inputs", None) or {}
    properties: dict[str, Any] = {}
    for field, described in inputs.items():
        kind = _TYPES.get(str(described.get("type")))
        is_open = kind is None or described.get("nullable")
        properties[field] = {"description": str(described.get("description", "")), **({} if is_open else {"type": kind})}
    required = [field for field, described in inputs.items() if not described.get("nullable")]
    return Tool.with_parameters(given, name, str(getattr(given, "description", "")), properties, required)


def _plain(text: str) -> Any:
    """The value whose `repr` this is; the text itself for an object of a class that only the session knows."""
    try:
        return read_repr(text)
    except WrongValue:
        return text


def _is_cut(text: str) -> bool:
    return "… (" in text[-60:]


def _value(result: Result) -> Any:
    """The value of the last expression; its text where it is of a class that only the session knows."""
    try:
        return result.value()
    except WrongValue:
        return result.text
