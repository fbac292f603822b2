"""The directories that are the session's own: its workspace, and the temporary ones."""

from __future__ import annotations

from . import BUILTINS as __builtins__

_TEMPORARY = ("/tmp", "/dev/shm")

_workspace = "/workspace"


def begin(directory: str) -> None:
    """The session begins in this directory: it is the workspace."""
    global _workspace
    _workspace = directory


def workspace() -> str:
    """The path of the workspace."""
    return _workspace


def is_own(path: str) -> bool:
    """Whether a path is one of these directories, or below one."""
    return (path + "/").startswith(tuple(directory + "/" for directory in (_workspace, *_TEMPORARY)))


def is_temporary(path: str) -> bool:
    """Whether a path is in a temporary directory, or is one."""
    return (path + "/").startswith(tuple(directory + "/" for directory in _TEMPORARY))
