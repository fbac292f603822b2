"""Monty: an interpreter of a part of Python, written in Rust, in worker processes of a pool."""

from __future__ import annotations

import os
import signal
import time
from importlib.metadata import version

import pydantic_monty

from .base import Peer, Session


class Driver(Peer):
    title = "Monty"
    notes = {
        "crash": "code cannot crash it; its worker was killed from outside, and a new session opened",
        "undo": "a `dump()` by the caller before the cell, and `load_session()` after it",
        "fork": "`dump()` and `load_session()` by the caller",
    }

    def start(self) -> None:
        self.pool = pydantic_monty.Monty(min_processes=2, max_processes=32)
        self.pool.__enter__()

    def stop(self) -> None:
        self.pool.__exit__(None, None, None)

    def version(self) -> str:
        return f"pydantic-monty {version('pydantic-monty')}"

    def open(self, time_limit: float | None = None) -> Repl:
        return Repl(self, time_limit)

    def crash(self, session: Repl) -> None:
        os.kill(session.worker.worker_pid, signal.SIGKILL)
        try:
            session.run("1 + 1")
        except pydantic_monty.MontyCrashedError:
            return
        raise RuntimeError("the worker lives")

    def recover(self, session: Repl) -> Repl:
        session.close()
        return self.open()

    def run_out_of_time(self, session: Repl, code: str, seconds: float) -> float:
        begun = time.perf_counter()
        try:
            session.run(code)
        except RuntimeError:
            return begun + seconds
        raise RuntimeError("it did not run out of time")

    def prepare_undo(self, session: Repl) -> None:
        session.saved = session.worker.dump()

    def undo(self, session: Repl) -> None:
        saved = session.saved
        session.close()
        session.enter()
        session.worker.load_session(saved)

    def fork(self, session: Repl) -> Repl:
        other = self.open()
        other.worker.load_session(session.worker.dump())
        return other

    def processes(self) -> list[int]:
        return [os.getpid()]


class Repl(Session):
    def __init__(self, peer: Driver, time_limit: float | None) -> None:
        self.peer = peer
        self.limits = {"max_feed_duration_secs": time_limit}
        self.saved = b""
        self.enter()

    def enter(self) -> None:
        self.worker = self.peer.pool.checkout(limits=self.limits)
        self.worker.__enter__()

    def run(self, code: str) -> str:
        try:
            value = self.worker.feed_run(code)
        except pydantic_monty.MontyRuntimeError as error:
            raise RuntimeError(str(error)) from error
        return "" if value is None else repr(value)

    def print_through(self, code: str) -> int:
        printed = 0

        def take(stream: str, text: str) -> None:
            nonlocal printed
            printed += len(text)

        self.worker.feed_run(code, print_callback=take)
        return printed

    def close(self) -> None:
        self.worker.__exit__(None, None, None)
