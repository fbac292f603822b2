"""LangChain: a tool `run_python` that remembers, and a sandbox backend for deepagents.

    from cellblock.langchain import CellblockSandbox, run_python

    model.bind_tools([run_python()])
    create_deep_agent(model=model, backend=CellblockSandbox())

docs/python/langchain.md has the rest. The backend needs the package `deepagents`, the tool does not.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from langchain_core.tools import BaseTool, StructuredTool

from . import _commands as commands
from ._adapters import MAX_TEXT, RUN_PYTHON, session_from
from .result import Result
from .session import Session

try:
    from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
    from deepagents.backends.sandbox import BaseSandbox
except ModuleNotFoundError:  # the tool works without it
    if not TYPE_CHECKING:
        BaseSandbox = None

__all__ = ["CellblockSandbox", "run_python"]

# What deepagents calls the errors that a model can do something about.
_ERRORS = {
    errno.ENOENT: "file_not_found",
    errno.ENOTDIR: "invalid_path",
    errno.EINVAL: "invalid_path",
    errno.ENAMETOOLONG: "invalid_path",
    errno.EISDIR: "is_directory",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
}
# The exit code of `timeout` in the shell.
_LATE = 124


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


class CellblockSandbox(BaseSandbox or object):  # type: ignore[misc, unused-ignore]
    """A backend for deepagents: its commands and files are in a session. Takes a session, or the options of a new one.

    A command that takes longer than `timeout` seconds is ended with its process group and gives the exit code 124.
    """

    def __init__(self, session: Session | None = None, *, timeout: float = 1800, **options: Any) -> None:
        if BaseSandbox is None:
            raise ModuleNotFoundError("CellblockSandbox needs the package `deepagents`: pip install 'cellblock[langchain]'")
        self._owns_session = session is None
        #: The session itself, with variables, undo and forks.
        self.session = session_from(session, options)
        self._timeout = timeout

    @property
    def id(self) -> str:
        """The name of the session."""
        return self.session.name

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Runs a line of the shell. Its two streams come in the order in which they were written."""
        limit = self._timeout if timeout is None else timeout
        # The line break lets the command begin a line, as one with a here-document wants.
        done = commands.carry_out(self.session, commands.run_command(f"exec 2>&1\n{command}", timeout=limit))
        output = done.stdout.decode(errors="replace")
        if done.is_late:
            return ExecuteResponse(f"{output}\nthe command was ended: it took longer than {limit:g} s", _LATE, done.is_cut)
        return ExecuteResponse(output, done.exit_code, done.is_cut)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Writes files by their absolute paths. What goes wrong with one is in its answer."""
        answers: list[FileUploadResponse] = []
        for path, contents in files:
            problem = _path_problem(path)
            if problem is None:
                try:
                    commands.carry_out(self.session, commands.write_bytes(path, contents, parents=True))
                except OSError as error:
                    problem = _word(error)
            answers.append(FileUploadResponse(path=path, error=problem))
        return answers

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Reads files by their absolute paths. What goes wrong with one is in its answer."""
        answers: list[FileDownloadResponse] = []
        for path in paths:
            contents, problem = None, _path_problem(path)
            if problem is None:
                try:
                    contents = commands.carry_out(self.session, commands.read_bytes(path))
                except OSError as error:
                    problem = _word(error)
            answers.append(FileDownloadResponse(path=path, content=contents, error=problem))
        return answers

    def close(self) -> None:
        """Closes the session, if the backend opened it."""
        if self._owns_session:
            self.session.close()


def _path_problem(path: str) -> str | None:
    return None if path.startswith("/") and "\0" not in path else "invalid_path"


def _word(error: OSError) -> str:
    return _ERRORS.get(error.errno or 0, str(error))
