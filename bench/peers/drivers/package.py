"""Cellblock, through its Python package: what a program pays that writes `from cellblock import Session`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from .base import SEGFAULT, Peer, Session

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python" / "src"))
os.environ.setdefault("CELLBLOCK_BIN", os.environ["CELLBLOCK"])

import cellblock


class Driver(Peer):
    title = "Cellblock, Python package"

    def start(self) -> None:
        self.host = cellblock.Host(journal=False)
        cellblock.Session(host=self.host).close()

    def stop(self) -> None:
        self.host.close()

    def version(self) -> str:
        return cellblock.__version__

    def open(self, time_limit: float | None = None) -> Sealed:
        return Sealed(cellblock.Session(host=self.host))

    def crash(self, session: Sealed) -> None:
        result = session.inner.run(SEGFAULT)
        assert (result.status, result.signal) == ("crashed", 11), result

    def run_out_of_time(self, session: Sealed, code: str, seconds: float) -> float:
        begun = time.perf_counter()
        result = session.inner.run(code, timeout=seconds)
        assert result.status == "timeout", result
        return begun + seconds

    def undo(self, session: Sealed) -> None:
        session.inner.undo()

    def prepare_undo(self, session: Sealed) -> None:
        time.sleep(0.02)

    def fork(self, session: Sealed) -> Sealed:
        return Sealed(session.inner.fork())

    def processes(self) -> list[int]:
        return [self.host.pid() or 0]


class Sealed(Session):
    def __init__(self, inner: cellblock.Session) -> None:
        self.inner = inner

    def run(self, code: str) -> str:
        result = self.inner.run(code)
        if result.status != "success":
            raise RuntimeError(str(result.error or result.status))
        return result.text

    def print_through(self, code: str) -> int:
        return sum(len(event.text) for event in self.inner.stream(code) if isinstance(event, cellblock.Stdout))

    def close(self) -> None:
        self.inner.close()
