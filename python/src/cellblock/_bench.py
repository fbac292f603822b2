"""Measures what the package promises about its speed: `python -m cellblock._bench cell 200` prints the samples as JSON.

`cellblock bench` calls this for its rows about the package, with the binary under test in `CELLBLOCK_BIN`.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter, sleep
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

GIGABYTE = 1_000_000_000
_TEN_MILLISECONDS = 0.01


def milliseconds(work: Callable[[], object], repetitions: int, pause: float = 0.0) -> list[float]:
    """How long each repetition took."""
    samples: list[float] = []
    for _ in range(repetitions):
        begun = perf_counter()
        work()
        samples.append((perf_counter() - begun) * 1000)
        sleep(pause)
    return samples


def measure_import(repetitions: int) -> list[float]:
    """A new interpreter that imports the package, minus one that imports nothing."""
    import subprocess

    def start(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True)

    start("import cellblock")
    bare = sorted(milliseconds(lambda: start("pass"), repetitions))[repetitions // 2]
    return [sample - bare for sample in milliseconds(lambda: start("from cellblock import Session"), repetitions)]


def measure_session(repetitions: int) -> list[float]:
    """`Session()` with a host that is warm."""
    from cellblock import Session

    opened: list[Session] = [Session()]
    # The pool refills while nothing is asked for.
    samples = milliseconds(lambda: opened.append(Session()), repetitions, pause=0.1)
    for session in opened:
        session.close()
    return samples


def measure_cell(repetitions: int) -> list[float]:
    """`1 + 1`, back to back."""
    from cellblock import Session

    with Session() as session:
        milliseconds(lambda: session.run("1 + 1"), repetitions)
        return milliseconds(lambda: session.run("1 + 1"), repetitions * 5)


def measure_ratio(repetitions: int) -> list[float]:
    """`1 + 1` through the package, as a multiple of the same cell over the bare pipe, in turns of 50 cells each."""
    import subprocess

    from cellblock import Host, Session

    command = [Host().binary(), "pipe"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as pipe, Session() as session:
        write, read = pipe.stdin, pipe.stdout
        if write is None or read is None:
            raise RuntimeError("the program has no pipes")

        def ask() -> None:
            write.write(b'{"id":1,"op":"run","code":"1 + 1"}\n')
            write.flush()
            json.loads(read.readline())

        def median(work: Callable[[], object]) -> float:
            return sorted(milliseconds(work, 50))[25]

        def through_package() -> object:
            return session.run("1 + 1")

        median(ask)
        median(through_package)
        ratios = [median(through_package) / median(ask) for _ in range(max(5, repetitions // 20))]
        write.close()
    return ratios


def measure_tool(repetitions: int) -> list[float]:
    """One of 100 calls of a tool in a cell, which this process answers."""
    from cellblock import Session, tool

    @tool
    def same(value: int) -> int:
        """Returns its argument."""
        return value

    calls = 100
    with Session(tools=[same]) as session:
        code = f"for i in range({calls}): same(i)"
        session.run(code)
        return [sample / calls for sample in milliseconds(lambda: session.run(code), max(5, repetitions // 5))]


def measure_spawn(repetitions: int) -> list[float]:
    """`spawn(["true"])` to its end."""
    from cellblock import Session

    with Session() as session:
        session.spawn(["true"]).wait()
        return milliseconds(lambda: session.spawn(["true"]).wait(), repetitions, pause=_TEN_MILLISECONDS)


def measure_file_in(repetitions: int) -> list[float]:
    """1 GB of bytes into the workspace, in megabytes a second."""
    return _files(repetitions)[0]


def measure_file_out(repetitions: int) -> list[float]:
    """1 GB of bytes out of the workspace, in megabytes a second."""
    return _files(repetitions)[1]


def _files(repetitions: int) -> tuple[list[float], list[float]]:
    from cellblock import Limits, Session

    contents = bytes(range(256)) * (GIGABYTE // 256)
    into: list[float] = []
    out: list[float] = []
    with Session(limits=Limits(disk="8GB")) as session:
        for _ in range(min(3, repetitions)):
            [spent] = milliseconds(lambda: session.files.write("large", contents), 1)
            into.append(GIGABYTE / 1000 / spent)
            begun = perf_counter()
            back = session.files.read("large")
            out.append(GIGABYTE / 1_000_000 / (perf_counter() - begun))
            if back != contents:
                raise RuntimeError("the file came back with other contents")
            session.run("import os; os.remove('large')")
    return into, out


MEASURES: dict[str, Callable[[int], list[float]]] = {
    "import": measure_import,
    "session": measure_session,
    "cell": measure_cell,
    "ratio": measure_ratio,
    "tool": measure_tool,
    "spawn": measure_spawn,
    "file_in": measure_file_in,
    "file_out": measure_file_out,
}


def main() -> None:
    """Measures one thing, and prints the samples."""
    name, repetitions = sys.argv[1], int(sys.argv[2])
    sys.stdout.write(json.dumps(MEASURES[name](repetitions)) + "\n")


if __name__ == "__main__":
    main()
