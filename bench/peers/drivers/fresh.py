"""A new `python3` for each snippet: nothing is kept, and nothing can go wrong for longer."""

from __future__ import annotations

import platform
import signal
import subprocess
import sys
import time

from .base import SEGFAULT, Cannot, Peer, Session


class Driver(Peer):
    title = "a new python3 each"

    def version(self) -> str:
        return platform.python_version()

    def open(self, time_limit: float | None = None) -> Snippets:
        return Snippets()

    def crash(self, session: Snippets) -> None:
        ended = subprocess.run([sys.executable, "-c", SEGFAULT], check=False)
        assert ended.returncode == -signal.SIGSEGV, ended

    def run_out_of_time(self, session: Snippets, code: str, seconds: float) -> float:
        begun = time.perf_counter()
        try:
            subprocess.run([sys.executable, "-c", code], timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return begun + seconds
        raise RuntimeError("it did not run out of time")

    def processes(self) -> list[int]:
        raise Cannot("there is no session")


class Snippets(Session):
    def run(self, code: str) -> str:
        *lines, last = code.split("\n")
        code = "\n".join([*lines, f"print(repr({last}))"]) if _is_expression(last) else code
        return self.execute(code).strip()

    def print_through(self, code: str) -> int:
        return len(self.execute(code))

    def execute(self, code: str) -> str:
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if ended.returncode:
            raise RuntimeError(ended.stderr)
        return ended.stdout


def _is_expression(line: str) -> bool:
    try:
        compile(line, "<line>", "eval")
    except SyntaxError:
        return False
    return True
