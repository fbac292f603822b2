"""What a driver offers. A thing that its peer cannot do raises `Cannot`, whose text becomes a footnote."""

from __future__ import annotations

import time


class Cannot(Exception):
    """The peer has no such thing; the text says why."""


class Session:
    """State that lasts over cells, as far as the peer has any."""

    def run(self, code: str) -> str:
        """Run a cell; return the repr of its last expression, or an empty text."""
        raise NotImplementedError

    def print_through(self, code: str) -> int:
        """Run a cell that prints; return how many bytes came out."""
        raise NotImplementedError

    def close(self) -> None:
        pass


class Peer:
    """A way to run Python code."""

    title = ""
    #: By the key of a row: what one should know about its number.
    notes: dict[str, str] = {}
    #: Whether a crash or a hang of the code is one of this process: such rows are then tried in a process apart.
    in_process = False

    def start(self) -> None:
        """Once, before everything; not measured."""

    def stop(self) -> None:
        pass

    def version(self) -> str:
        raise NotImplementedError

    def open(self, time_limit: float | None = None) -> Session:
        """A new session. A peer that sets limits for a whole session is told here which is wanted for its cells."""
        raise NotImplementedError

    def crash(self, session: Session) -> None:
        """End the session's process in the middle of a cell, by a segfault where code can make one."""
        raise NotImplementedError

    def recover(self, session: Session) -> Session:
        """Whatever has to be done before the next cell can run: nothing, a restart, another session."""
        return session

    def run_out_of_time(self, session: Session, code: str, seconds: float) -> float:
        """Run a cell that does not end by itself, with a limit; return when the limit was reached."""
        raise NotImplementedError

    def undo(self, session: Session) -> None:
        """Take back the last cell."""
        raise Cannot("has none")

    def fork(self, session: Session) -> Session:
        """A second session that begins where this one stands."""
        raise Cannot("has none")

    def prepare_undo(self, session: Session) -> None:
        """What must be done before the cell that is taken back; not measured, for some do it while nobody waits."""

    def processes(self) -> list[int]:
        """The processes whose memory counts, without those that they started."""
        raise NotImplementedError


SEGFAULT = "import ctypes\nctypes.string_at(0)"


def wait_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.perf_counter()))
