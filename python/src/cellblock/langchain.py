"""LangChain: a tool `run_python` that remembers, and a sandbox backend for deepagents.

    from cellblock.langchain import CellblockSandbox, run_python

    model.bind_tools([run_python()])
    create_deep_agent(model=model, backend=CellblockSandbox())

docs/python/langchain.md has the rest. The backend needs the package `deepagents`, the tool does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.tools import BaseTool, StructuredTool

from ._adapters import MAX_TEXT, RUN_PYTHON, session_from
from .result import Result
from .session import Session

if TYPE_CHECKING:
    from ._deepagents import CellblockSandbox

__all__ = ["CellblockSandbox", "run_python"]


def run_python(session: Session | None = None, **options: Any) -> BaseTool:
    """A tool `run_python(code)`: variables, imports and functions stay from call to call.

    Takes a session, or the options of a new one. The model gets text; the artifact of the message is the `Result`, with pictures.
    """
    place = session_from(session, options)

    def run(code: str) -> tuple[str, Result]:
        result = place.run(code)
        return result.as_text(MAX_TEXT), result

    return StructuredTool.from_function(
        func=run, name="run_python", description=RUN_PYTHON, response_format="content_and_artifact"
    )


def __getattr__(name: str) -> Any:
    if name != "CellblockSandbox":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ._deepagents import CellblockSandbox

    return CellblockSandbox
