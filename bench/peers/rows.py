"""The rows of the table: what is measured, for every peer in the same way."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import memory
from drivers.base import Cannot, Peer, Session

C_LOOP = "sum(range(10**13))"
TIME_LIMIT = 0.5
FIB = "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
PANDAS = "import pandas as pd\npd.DataFrame({'a': [1, 2]}).shape[0]"
PRINT = "for _ in range(10_000):\n    print('x' * 999)"
PRINTED = 10_000_000
#: Between two measurements, so that what is done while nobody waits (a pool that refills, a checkpoint) is done.
PAUSE = 0.1


@dataclass
class Row:
    """One line of the table. `measure` gives one number, or a yes or no."""

    key: str
    title: str
    unit: str
    measure: Callable[[Peer, int], float | bool]
    repetitions: int
    #: Whether it may end or hang the process that runs the code.
    is_dangerous: bool = False
    #: Whether the README shows it. The page about speed shows all.
    is_in_readme: bool = False


def median(sample: Callable[[], float], repetitions: int) -> float:
    samples = []
    for _ in range(repetitions):
        samples.append(sample())
        time.sleep(PAUSE)
    return statistics.median(samples)


def elapsed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def expect(session: Session, code: str, value: str) -> None:
    found = session.run(code)
    if found != value:
        raise RuntimeError(f"{code!r} gave {found!r} instead of {value!r}")


def new_session(peer: Peer, repetitions: int) -> float:
    return median(lambda: _first_cell(peer, "1 + 1"), repetitions)


def new_session_with_pandas(peer: Peer, repetitions: int) -> float:
    return median(lambda: _first_cell(peer, PANDAS), repetitions)


def _first_cell(peer: Peer, code: str) -> float:
    begun = time.perf_counter()
    session = peer.open()
    try:
        expect(session, code, "2")
    except RuntimeError as error:
        raise Cannot("cannot import pandas") from error
    taken = time.perf_counter() - begun
    session.close()
    return taken


def round_trip(peer: Peer, repetitions: int) -> float:
    session = peer.open()
    expect(session, "1 + 1", "2")
    samples = []
    for _ in range(repetitions):
        samples.append(elapsed(lambda: session.run("1 + 1")))
        time.sleep(0.02)
    session.close()
    return statistics.median(samples)


def back_to_back(peer: Peer, repetitions: int) -> float:
    session = peer.open()
    expect(session, "1 + 1", "2")
    samples = [elapsed(lambda: session.run("1 + 1")) for _ in range(repetitions)]
    session.close()
    return statistics.median(samples)


def state_is_kept(peer: Peer, repetitions: int) -> bool:
    session = peer.open()
    session.run("x = 41")
    try:
        return session.run("x + 1") == "42"
    except RuntimeError:
        return False
    finally:
        session.close()


def crash(peer: Peer, repetitions: int) -> float:
    return median(lambda: _crash(peer)[0], repetitions)


def survives_crash(peer: Peer, repetitions: int) -> bool:
    return all(_crash(peer)[1] for _ in range(min(repetitions, 2)))


def _crash(peer: Peer) -> tuple[float, bool]:
    session = peer.open()
    session.run("x = 41")
    time.sleep(PAUSE)
    begun = time.perf_counter()
    peer.crash(session)
    return _next_cell(peer, session, begun)


def time_out(peer: Peer, repetitions: int) -> float:
    return median(lambda: _time_out(peer)[0], repetitions)


def survives_time_out(peer: Peer, repetitions: int) -> bool:
    return all(_time_out(peer)[1] for _ in range(min(repetitions, 2)))


def _time_out(peer: Peer) -> tuple[float, bool]:
    session = peer.open(TIME_LIMIT)
    session.run("x = 41")
    time.sleep(PAUSE)
    limit = peer.run_out_of_time(session, C_LOOP, TIME_LIMIT)
    return _next_cell(peer, session, limit)


def _next_cell(peer: Peer, session: Session, since: float) -> tuple[float, bool]:
    session = peer.recover(session)
    expect(session, "1 + 1", "2")
    taken = time.perf_counter() - since
    try:
        survived = session.run("x") == "41"
    except Exception:  # each peer has its own NameError
        survived = False
    session.close()
    return taken, survived


def fib(peer: Peer, repetitions: int) -> float:
    session = peer.open()
    taken = median(lambda: elapsed(lambda: expect(session, FIB + "fib(20)", "6765")), repetitions)
    session.close()
    return taken


def print_ten_megabytes(peer: Peer, repetitions: int) -> float:
    session = peer.open()

    def sample() -> float:
        begun = time.perf_counter()
        printed = session.print_through(PRINT)
        taken = time.perf_counter() - begun
        if printed < PRINTED:
            raise Cannot(f"only {printed} bytes came out")
        return taken

    taken = median(sample, repetitions)
    session.close()
    return taken


def idle_memory(peer: Peer, repetitions: int) -> float:
    """What the last of some sessions adds, each with one cell run."""

    def open_one() -> Session:
        session = peer.open()
        session.run("x = 1")
        return session

    sessions = [open_one() for _ in range(3)]
    time.sleep(1)
    before = memory.of(peer.processes())
    sessions += [open_one() for _ in range(repetitions)]
    time.sleep(1)
    after = memory.of(peer.processes())
    for session in sessions:
        session.close()
    return max(after - before, 0) / repetitions


def undo(peer: Peer, repetitions: int) -> float:
    def sample() -> float:
        session = peer.open()
        session.run("x = 41")
        peer.prepare_undo(session)
        session.run("x = 0")
        time.sleep(PAUSE)
        taken = elapsed(lambda: peer.undo(session))
        expect(session, "x", "41")
        session.close()
        return taken

    return median(sample, repetitions)


def fork(peer: Peer, repetitions: int) -> float:
    def sample() -> float:
        session = peer.open()
        session.run("x = 41")
        time.sleep(PAUSE)
        begun = time.perf_counter()
        other = peer.fork(session)
        expect(other, "x + 1", "42")
        taken = time.perf_counter() - begun
        other.close()
        session.close()
        return taken

    return median(sample, repetitions)


ROWS = (
    Row("new", "new session, first cell `1 + 1`", "time", new_session, 15, is_in_readme=True),
    Row("pandas", "new session, pandas imported and used", "time", new_session_with_pandas, 9, is_in_readme=True),
    Row("round_trip", "`1 + 1`, cells 20 ms apart", "time", round_trip, 200),
    Row("back_to_back", "`1 + 1`, back to back", "time", back_to_back, 500, is_in_readme=True),
    Row("state", "variables are there in the next cell", "yes", state_is_kept, 1),
    Row("crash", "segfault → next cell has run", "time", crash, 7, is_dangerous=True, is_in_readme=True),
    Row("after_crash", "… and variables from before are there", "yes", survives_crash, 2, is_dangerous=True, is_in_readme=True),
    Row("time_out", "time-out in a C loop → next cell has run", "time", time_out, 5, is_dangerous=True),
    Row("after_time_out", "… and variables from before are there", "yes", survives_time_out, 2, is_dangerous=True),
    Row("fib", "compute: `fib(20)`, recursive", "time", fib, 15),
    Row("print", "print 10 MB, all of it received", "time", print_ten_megabytes, 5),
    Row("memory", "memory of one more idle session", "bytes", idle_memory, 5, is_in_readme=True),
    Row("undo", "take the last cell back", "time", undo, 9, is_in_readme=True),
    Row("fork", "fork the session, first cell in the copy", "time", fork, 9, is_in_readme=True),
)
