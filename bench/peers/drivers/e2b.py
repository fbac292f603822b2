"""`cellblock serve` through the official SDK of E2B: `Sandbox.create()` and `run_code`."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading

from e2b_code_interpreter import Sandbox

from .base import SEGFAULT, Cannot, Peer, Session


class Driver(Peer):
    title = "Cellblock through E2B's SDK"

    def start(self) -> None:
        self.binary = os.environ["CELLBLOCK"]
        self.place = tempfile.TemporaryDirectory()
        limits = ["--quota", "sessions=64", "--quota", "memory=64GiB", "--quota", "cells_per_minute=60000"]
        command = [self.binary, "serve", "--no-auth", "--listen", "127.0.0.1:0", "--data", self.place.name, *limits]
        self.server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.server.stderr:
            if found := re.search(r"serving at (\S+)", line):
                break
        else:
            raise RuntimeError("the server did not start")
        threading.Thread(target=self.server.stderr.read, daemon=True).start()
        os.environ |= {"E2B_API_URL": found[1], "E2B_SANDBOX_URL": found[1], "E2B_API_KEY": "any"}

    def stop(self) -> None:
        self.server.terminate()
        self.server.wait(30)
        self.place.cleanup()

    def version(self) -> str:
        from importlib.metadata import version

        return f"e2b {version('e2b')}"

    def open(self, time_limit: float | None = None) -> Remote:
        return Remote(Sandbox.create())

    def crash(self, session: Remote) -> None:
        assert session.sandbox.run_code(SEGFAULT).error is not None

    def run_out_of_time(self, session: Remote, code: str, seconds: float) -> float:
        raise Cannot("the client only stops waiting")

    def processes(self) -> list[int]:
        return [self.server.pid]


class Remote(Session):
    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def run(self, code: str) -> str:
        execution = self.sandbox.run_code(code)
        if execution.error is not None:
            raise RuntimeError(execution.error.value)
        return execution.text or ""

    def print_through(self, code: str) -> int:
        return sum(map(len, self.sandbox.run_code(code).logs.stdout))

    def close(self) -> None:
        self.sandbox.kill()
