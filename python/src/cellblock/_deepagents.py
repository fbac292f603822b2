"""The sandbox backend for deepagents. `cellblock.langchain` gives it out."""

from __future__ import annotations

import errno
from typing import Any

from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

from . import _commands as commands
from ._adapters import session_from
from .session import Session

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


class CellblockSandbox(BaseSandbox):  # type: ignore[misc, unused-ignore]
    """A backend for deepagents: its commands and files are in a session. Takes a session, or the options of a new one.

    A command that takes longer than `timeout` seconds is ended with its process group and gives the exit code 124.
    """

    def __init__(self, session: Session | None = None, *, timeout: float = 1800, **options: Any) -> None:
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
