"""Inspect: `sandbox="cellblock"` runs the commands, files and tools of an evaluation in sealed sessions, one for each sample.

    Task(dataset=..., solver=[use_tools(bash(), python()), generate()], sandbox="cellblock")

Inspect finds this module by its entry point. docs/python/inspect.md has the rest.
"""

from __future__ import annotations

import posixpath
from typing import Any, Literal, overload

from inspect_ai.tool import tool
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandbox,
    sandboxenv,
)
from pydantic import BaseModel

from . import _commands as commands
from ._adapters import MAX_TEXT
from .async_session import AsyncSession
from .options import Env
from .result import Result

__all__ = ["CellblockConfig", "CellblockSandboxEnvironment", "stateful_python"]

_USERS = (None, "user", "1000")


class CellblockConfig(BaseModel):  # type: ignore[misc, unused-ignore]
    """What the session of a sample gets: `sandbox=SandboxEnvironmentSpec("cellblock", CellblockConfig(packages=["numpy"]))`."""

    packages: list[str] = []
    limits: dict[str, Any] = {}
    network: list[str] = []
    isolation: str | None = None

    def options(self) -> dict[str, Any]:
        """The options of the session."""
        packages = {"env": Env(*self.packages)} if self.packages else {}
        return {"limits": self.limits, "network": self.network, "isolation": self.isolation, **packages}


@sandboxenv(name="cellblock")  # type: ignore[untyped-decorator, unused-ignore]
class CellblockSandboxEnvironment(SandboxEnvironment):  # type: ignore[misc, unused-ignore]
    """The sandbox of one sample: a session. Commands and files of one sample run one after the other."""

    def __init__(self, session: AsyncSession) -> None:
        super().__init__()
        #: The session itself, with variables, undo and forks.
        self.session = session
        self._place: str | None = None

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Runs a program. There is one user: another `user` raises `SandboxUserUnsupportedError`."""
        if user not in _USERS:
            raise SandboxUserUnsupportedError(f"a session of Cellblock has one user, `user` (1000); {user!r} is not there")
        done = await commands.carry_out_async(
            self.session,
            commands.run_command(
                cmd,
                input=input.encode() if isinstance(input, str) else input,
                cwd=await self._path(cwd or ""),
                env=env,
                timeout=timeout,
                max_output=SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE,
            ),
        )
        if done.is_late:
            raise TimeoutError(f"the command did not end within {timeout} s")
        if done.start_error and done.exit_code == 126:
            raise PermissionError(done.start_error, f"the program cannot be run: {done.stderr.decode(errors='replace').strip()}")
        stdout, stderr = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        if done.is_cut:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, stdout)
        return ExecResult(done.exit_code == 0, done.exit_code, stdout, stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Writes a file, with the directories above it."""
        data = contents.encode() if isinstance(contents, str) else contents
        await commands.carry_out_async(self.session, commands.write_bytes(await self._path(file), data, parents=True))

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...
    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...
    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Reads a file of at most `SandboxEnvironmentLimits.MAX_READ_FILE_SIZE` bytes."""
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        try:
            data = await commands.carry_out_async(self.session, commands.read_bytes(await self._path(file), max_bytes=limit))
        except commands.TooLong:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None) from None
        return data.decode() if text else data

    async def _path(self, path: str) -> str:
        # Code may change the directory that the interpreter stands in; that of the sample stays.
        if self._place is None:
            self._place = await commands.carry_out_async(self.session, commands.working_directory())
        return posixpath.join(self._place, path) if path else self._place

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: dict[str, str]) -> dict[str, SandboxEnvironment]:
        """Opens the session of a sample. `config` is a `CellblockConfig`, or the path of a file that lists packages."""
        if isinstance(config, str):
            options: dict[str, Any] = {"env": Env.file(config)}
        else:
            options = {} if config is None else config.options()
        made = cls(await AsyncSession(**options).open())
        await made._path("")
        return {"default": made}

    @classmethod
    async def sample_cleanup(
        cls, task_name: str, config: Any, environments: dict[str, SandboxEnvironment], interrupted: bool
    ) -> None:
        """Closes the session of a sample."""
        for one in environments.values():
            await one.as_type(cls).session.close()

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """The configuration from a log."""
        return CellblockConfig(**config)


@tool(name="python")  # type: ignore[untyped-decorator, unused-ignore]
def stateful_python() -> Any:
    """A tool `python` that remembers: variables, imports and functions stay from call to call."""

    async def execute(code: str) -> str:
        """Run Python code. Variables, imports and functions stay for the next call. The last expression is shown.

        Args:
          code: The Python code to run.

        Returns:
          What the code printed, the value of its last expression, or the traceback.
        """
        result: Result = await sandbox().as_type(CellblockSandboxEnvironment).session.run(code)
        return result.as_text(MAX_TEXT)

    return execute
