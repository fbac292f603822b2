"""smolagents' local executor: an interpreter of Python's syntax tree, in the process of the program that uses it."""

from __future__ import annotations

import os
import time
from importlib.metadata import version

from .base import SEGFAULT, Peer, Session


class Driver(Peer):
    title = "smolagents local"
    notes = {
        "new": "no process of its own and no isolation: the code runs in the program's own process",
        "pandas": "imported once into the program's own process",
    }
    in_process = True

    def version(self) -> str:
        return version("smolagents")

    def open(self, time_limit: float | None = None) -> Executor:
        return Executor()

    def crash(self, session: Executor) -> None:
        session.executor(SEGFAULT)

    def run_out_of_time(self, session: Executor, code: str, seconds: float) -> float:
        session.executor.timeout_seconds = seconds
        begun = time.perf_counter()
        try:
            session.executor(code)
        except Exception:
            pass
        session.executor.timeout_seconds = 120
        return begun + seconds

    def processes(self) -> list[int]:
        return [os.getpid()]


class Executor(Session):
    def __init__(self) -> None:
        from smolagents.local_python_executor import LocalPythonExecutor

        self.executor = LocalPythonExecutor(
            ["pandas", "ctypes"], max_print_outputs_length=100_000_000, timeout_seconds=120
        )
        self.executor.send_tools({})

    def run(self, code: str) -> str:
        output = self.executor(code).output
        return "" if output is None else repr(output)

    def print_through(self, code: str) -> int:
        return len(self.executor(code).logs)
