"""Cellblock: a real Python for language models, sealed, stateful, and unbreakable.

    from cellblock import Session

    with Session() as s:
        s.run("x = [1, 2, 3]")
        s.run("import os; os.kill(os.getpid(), 11)")   # crashes; x is still there
        print(s.run("sum(x)").value(int))              # 6

`Session` is for ordinary programs, `AsyncSession` for those with an event loop. docs/python.md is a tutorial.
"""

from __future__ import annotations

from ._version import __version__
from .errors import AgentFailed, BinaryError, Busy, CellblockError, CellFailed, Ended, Refused, Unsupported, WrongValue
from .files import AsyncFiles, Files
from .host import Host, Remote
from .result import Result
from .session import Session, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .agent import Agent, AsyncAgent
    from .approval import Approve, Call
    from .async_session import AsyncSession
    from .chats import AsyncChat, Chat
    from .events import (
        Begun,
        ClearOutput,
        Comm,
        Display,
        Event,
        Finished,
        InputRequest,
        Log,
        Numbered,
        Restored,
        Stderr,
        Stdout,
        ToolCall,
    )
    from .options import Container, Env, Limits, Network
    from .outcomes import AgentEvent, Outcome
    from .processes import AsyncProcess, Output, Process, ProcessEnd, ProcessInfo
    from .records import (
        CellError,
        Checkpoint,
        CheckpointState,
        Completeness,
        Completion,
        File,
        FileChanges,
        Frame,
        Inspection,
        PathStat,
        ToolCallRecord,
        Undone,
        Usage,
        Variable,
        VariableChanges,
    )
    from .templates import Template, template
    from .tools import Tool, tool
    from .watches import AsyncWatch, FileChange, Watch

__all__ = [
    "Agent",
    "AgentEvent",
    "AgentFailed",
    "Approve",
    "AsyncAgent",
    "AsyncChat",
    "AsyncFiles",
    "AsyncProcess",
    "AsyncSession",
    "AsyncWatch",
    "Begun",
    "BinaryError",
    "Busy",
    "Call",
    "CellError",
    "CellFailed",
    "CellblockError",
    "Chat",
    "Checkpoint",
    "CheckpointState",
    "ClearOutput",
    "Comm",
    "Completeness",
    "Completion",
    "Container",
    "Display",
    "Ended",
    "Env",
    "Event",
    "File",
    "FileChange",
    "FileChanges",
    "Files",
    "Finished",
    "Frame",
    "Host",
    "InputRequest",
    "Inspection",
    "Limits",
    "Log",
    "Network",
    "Numbered",
    "Outcome",
    "Output",
    "PathStat",
    "Process",
    "ProcessEnd",
    "ProcessInfo",
    "Refused",
    "Remote",
    "Restored",
    "Result",
    "Session",
    "Stderr",
    "Stdout",
    "Stream",
    "Template",
    "Tool",
    "ToolCall",
    "ToolCallRecord",
    "Undone",
    "Unsupported",
    "Usage",
    "Variable",
    "VariableChanges",
    "Watch",
    "WrongValue",
    "__version__",
    "template",
    "tool",
]

# Imported when they are first used: `asyncio` alone takes longer to import than everything above.
_MODULES = {
    "agent": "Agent AsyncAgent",
    "approval": "Approve Call",
    "async_session": "AsyncSession",
    "chats": "AsyncChat Chat",
    "events": "Begun ClearOutput Comm Display Event Finished InputRequest Log Numbered Restored Stderr Stdout ToolCall",
    "options": "Container Env Limits Network",
    "outcomes": "AgentEvent Outcome",
    "processes": "AsyncProcess Output Process ProcessEnd ProcessInfo",
    "records": "CellError Checkpoint CheckpointState Completeness Completion File FileChanges Frame Inspection PathStat "
    "ToolCallRecord Undone Usage Variable VariableChanges",
    "templates": "Template template",
    "tools": "Tool tool",
    "watches": "AsyncWatch FileChange Watch",
}
_LATER = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
