"""Signal handlers that ask a session something, whatever their thread does at that moment."""

from __future__ import annotations

import os
import signal
import time

import pytest

from cellblock import Session


def test_a_signal_handler_asks_while_its_thread_waits() -> None:
    with Session() as session, Session() as other:
        session.run("1")
        session.run("1")
        answers: list[int] = []

        def ask(number: int, frame: object) -> None:
            answers.append(other.run("6 * 7").value(int))

        before = signal.signal(signal.SIGALRM, ask)
        try:
            for delay in (0.05, 0.1, 0.15, 0.2):
                signal.setitimer(signal.ITIMER_REAL, delay)
                assert session.run("import time; time.sleep(0.15); 5").value(int) == 5
                while len(answers) == 0:
                    time.sleep(0.01)
                assert answers == [42]
                answers.clear()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def test_a_signal_handler_asks_right_after_its_thread_has_written(monkeypatch: pytest.MonkeyPatch) -> None:
    with Session() as session, Session() as other:
        answers: list[int] = []
        write = os.write

        def write_and_signal(descriptor: int, data: bytes) -> int:
            written = write(descriptor, data)
            if b"'outer'" in data:
                signal.raise_signal(signal.SIGALRM)
            return written

        before = signal.signal(signal.SIGALRM, lambda number, frame: answers.append(other.run("6 * 7").value(int)))
        monkeypatch.setattr(os, "write", write_and_signal)
        try:
            assert session.run("'outer'").value(str) == "outer"
        finally:
            signal.signal(signal.SIGALRM, before)
        assert answers == [42]


def test_a_timer_in_a_signal_handler_stops_the_cell() -> None:
    with Session() as session:
        session.run("1")
        session.run("1")
        before = signal.signal(signal.SIGALRM, lambda number, frame: session.interrupt())
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            result = session.run("while True: pass")
            assert result.error is not None
            assert result.error.type == "KeyboardInterrupt"
        finally:
            signal.signal(signal.SIGALRM, before)
