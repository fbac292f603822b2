"""Cellblock, through `cellblock pipe`: JSON lines from this process, so its encoding and decoding count."""

from __future__ import annotations

import json
import os
import subprocess
import time

from .base import SEGFAULT, Cannot, Peer, Session


class Driver(Peer):
    title = "Cellblock"

    def start(self) -> None:
        self.binary = os.environ["CELLBLOCK"]
        command = [self.binary, "pipe", "--no-journal"]
        self.pipe = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.opened = 0

    def stop(self) -> None:
        self.pipe.stdin.close()
        self.pipe.wait(30)

    def version(self) -> str:
        return subprocess.run([self.binary, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]

    def open(self, time_limit: float | None = None) -> Sealed:
        self.opened += 1
        session = Sealed(self, f"p{self.opened}")
        session.ask("open")
        return session

    def crash(self, session: Sealed) -> None:
        result = session.result(SEGFAULT)
        assert (result["status"], result["signal"]) == ("crashed", 11), result

    def run_out_of_time(self, session: Sealed, code: str, seconds: float) -> float:
        begun = time.perf_counter()
        result = session.result(code, timeout=seconds)
        assert result["status"] == "timeout", result
        return begun + seconds

    def undo(self, session: Sealed) -> None:
        session.ask("undo")

    def prepare_undo(self, session: Sealed) -> None:
        time.sleep(0.02)

    def fork(self, session: Sealed) -> Sealed:
        return Sealed(self, session.ask("fork")["session"])

    def processes(self) -> list[int]:
        return [self.pipe.pid]


class Sealed(Session):
    def __init__(self, peer: Driver, name: str) -> None:
        self.pipe = peer.pipe
        self.name = name
        self.printed = 0

    def run(self, code: str) -> str:
        result = self.result(code)
        if result["status"] != "success":
            raise RuntimeError(result["error"] or result["status"])
        return result["value"]["repr"] if result["value"] else ""

    def print_through(self, code: str) -> int:
        self.printed = 0
        self.result(code)
        return self.printed

    def close(self) -> None:
        self.ask("close")

    def result(self, code: str, **options: object) -> dict:
        self.send(op="run", code=code, **options)
        return self.await_event("result")["result"]

    def ask(self, operation: str) -> dict:
        self.send(op=operation)
        return self.await_event("answer")["answer"]

    def send(self, **request: object) -> None:
        line = json.dumps({"id": 1, "session": self.name, **request})
        self.pipe.stdin.write(line.encode() + b"\n")
        self.pipe.stdin.flush()

    def await_event(self, wanted: str) -> dict:
        while True:
            line = json.loads(self.pipe.stdout.readline())
            event = line["event"]
            if event == wanted:
                return line
            if event == "stdout":
                self.printed += len(line["text"])
            if event == "error":
                if line["code"] == "unsupported":
                    raise Cannot(line["message"])
                raise RuntimeError(line["message"])
