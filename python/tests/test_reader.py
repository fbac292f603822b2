"""Which thread reads the lines of the child process, and that no line is lost whatever interrupts it."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from cellblock import Session
from cellblock._reader import Line, LineReader


class Child:
    """The writing end of a child process, and what was dispatched of its lines: the thread, and the line."""

    def __init__(self) -> None:
        output, self.input = os.pipe()
        self.inboxes: dict[int, SimpleQueue[Line]] = {}
        self.dispatched: list[tuple[str, Line]] = []
        self.has_ended = threading.Event()
        self.reader = LineReader(output, self._dispatch, self.inboxes, self.has_ended.set)

    def _dispatch(self, line: Line) -> None:
        self.dispatched.append((threading.current_thread().name, line))
        inbox = self.inboxes.get(line["id"])
        if inbox is not None and line["event"] == "result":
            inbox.put(line)
            del self.inboxes[line["id"]]

    def says(self, *lines: tuple[int, str]) -> None:
        text = b"".join(json.dumps({"id": number, "event": event}).encode() + b"\n" for number, event in lines)
        os.write(self.input, text)

    def answers(self, number: int, *lines: tuple[int, str], delay: float = 0.02) -> tuple[str, Line]:
        """What a caller does: asks, and waits for its answer. The child says these lines meanwhile."""
        inbox = self.inboxes[number] = SimpleQueue()
        if delay:
            threading.Timer(delay, lambda: self.says(*lines)).start()
        else:
            self.says(*lines)
        self.reader.read_for(number, inbox)
        inbox.get(timeout=5)
        return self.dispatched[-1]


@pytest.fixture
def child() -> Iterator[Child]:
    made = Child()
    yield made
    os.close(made.input)
    assert made.has_ended.wait(5)


def test_callers_that_come_one_after_the_other_read_their_own_answers(child: Child) -> None:
    # The thread reads until the first caller has come, and again when none has come for a while.
    readers = [child.answers(number, (number, "stdout"), (number, "result"), delay=0)[0] for number in range(1, 101)]
    assert readers[0] == "cellblock-reader"
    assert readers.count(threading.current_thread().name) > 30


def test_what_is_no_answer_is_left_to_the_thread(child: Child) -> None:
    child.answers(1, (1, "result"))
    thread, line = child.answers(2, (2, "tool_call"), (2, "result"))
    assert (thread, line) == ("cellblock-reader", {"id": 2, "event": "result"})
    other = child.inboxes[3] = SimpleQueue()
    assert child.answers(4, (3, "result"), (4, "result"))[0] == "cellblock-reader"
    assert other.get(timeout=5) == {"id": 3, "event": "result"}


def test_the_thread_reads_again_when_no_caller_does(child: Child) -> None:
    child.answers(1, (1, "result"))
    child.says((9, "stdout"))
    _until(lambda: len(child.dispatched) == 2)
    assert child.dispatched[-1] == ("cellblock-reader", {"id": 9, "event": "stdout"})


def test_a_line_in_pieces_is_one_line(child: Child) -> None:
    child.answers(1, (1, "result"))
    inbox = child.inboxes[2] = SimpleQueue()
    text = json.dumps({"id": 2, "event": "result", "text": "x" * 200_000}).encode() + b"\n"

    def write_slowly() -> None:
        for start in range(0, len(text), 30_000):
            os.write(child.input, text[start : start + 30_000])
            time.sleep(0.005)

    threading.Thread(target=write_slowly).start()
    child.reader.read_for(2, inbox)
    assert len(inbox.get(timeout=5)["text"]) == 200_000


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C raises `KeyboardInterrupt`, also where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_at_any_moment_loses_no_answer_and_counts_no_cell_twice(ctrl_c: None) -> None:
    with Session() as session:
        session.run("n = 0")
        stop = threading.Event()

        def interrupt() -> None:
            while not stop.wait(0.003):
                os.kill(os.getpid(), signal.SIGINT)

        interrupts = 0
        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            deadline = time.monotonic() + 3
            while time.monotonic() < deadline:
                try:
                    session.run("n += 1")
                except KeyboardInterrupt:
                    interrupts += 1
        except KeyboardInterrupt:
            pass
        finally:
            stop.set()
            _join(thread)
        assert interrupts > 10
        # Nothing is left over from before: each answer is that of its own cell, and `undo` goes back by one.
        assert session.run("'mine'").value(str) == "mine"
        session.run("n = 100")
        session.run("n = 101")
        session.undo()
        assert session.get("n", int) == 100


def test_a_result_that_comes_twice_is_counted_once() -> None:
    with Session() as session:
        session.run("n = 1")
        session._core.note_result(session.run("n = 2").raw)
        session.run("n = 3")
        crash: dict[str, Any] = {"cell": 4, "state": {"outcome": "restored", "checkpoint": {"behind": 1}}}
        for _ in range(2):
            session._core.note_result(crash)
        assert session._core.last_cell() == 2
        session.run("n = 5")
        session.undo(2)
        session.undo(to=1)
        assert session.get("n", int) == 1


def _join(thread: threading.Thread) -> None:
    while thread.is_alive():
        try:
            thread.join()
        except KeyboardInterrupt:
            continue


def _until(is_true: Any) -> None:
    deadline = time.monotonic() + 5
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.001)
