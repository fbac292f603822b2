"""OpenAI Agents SDK: a function tool with a Python that remembers.

    from agents import Agent
    from cellblock.openai_agents import run_python

    Agent(name="Analyst", tools=[run_python()])

docs/python/openai-agents.md has the rest.
"""

from __future__ import annotations

from typing import Any

from agents import FunctionTool, function_tool

from ._adapters import MAX_TEXT, RUN_PYTHON
from .async_session import AsyncSession

__all__ = ["run_python"]


def run_python(session: AsyncSession | None = None, **options: Any) -> FunctionTool:
    """A tool `run_python(code)`: variables, imports and functions stay from call to call.

    Takes a session, or the options of a new one, which is closed when the tool is dropped. Agents that get the same tool share
    its session.
    """
    if session is not None and options:
        raise TypeError("give a session, or options for a new one, not both")
    place = AsyncSession(**options) if session is None else session

    async def run(code: str) -> str:
        return (await place.run(code)).as_text(MAX_TEXT)

    return function_tool(run, name_override="run_python", description_override=RUN_PYTHON)
