"""What happens in sessions of a server between their cells: what threads print, and that a session went back."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING

from ._workers import workers
from .errors import CellblockError

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from ._connection import Line, Receive
    from ._remote import RemoteConnection

# How often a stream that broke off is taken up again without a new event in between.
_MAX_BREAKS = 5
_KINDS = frozenset(("log", "restored"))


@dataclass
class _Reader:
    path: str
    receive: Receive
    #: The number of the last event that was read.
    last: int = 0
    is_reading: bool = False
    response: HTTPResponse | None = None


class RemoteLogs:
    """The streams of events of the sessions whose logs have a reader."""

    def __init__(self, connection: RemoteConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._readers: dict[str, _Reader] = {}

    def add(self, name: str, session: str, receive: Receive) -> None:
        """Gives what happens between the cells of a session to `receive`, on another thread, until `forget`."""
        self._readers[name] = _Reader(f"/v1/sessions/{session}/events", receive)
        self.follow(name)

    def follow(self, name: str) -> None:
        """Reads on, where the stream of a session has ended: a session that sleeps has none, and its next cell wakes it up."""
        with self._lock:
            reader = self._readers.get(name)
            if reader is None or reader.is_reading:
                return
            reader.is_reading = True
        workers.run(lambda: self._read(name, reader))

    def forget(self, name: str) -> None:
        """Ends `add`. For finalizers, too: it takes no lock."""
        from ._remote import shut_down

        reader = self._readers.pop(name, None)
        if reader is not None and reader.response is not None:
            shut_down(reader.response)

    def _read(self, name: str, reader: _Reader) -> None:
        breaks = 0
        while name in self._readers and breaks <= _MAX_BREAKS:
            before = reader.last
            try:
                if self._read_stream(name, reader):
                    break
            except CellblockError as error:
                if error.code != "events_gone":
                    break
                reader.last = 0
            except (OSError, HTTPException, ValueError):
                pass
            breaks = 0 if reader.last > before else breaks + 1
            time.sleep(0.05 * breaks)
        with self._lock:
            reader.is_reading = False
            reader.response = None

    def _read_stream(self, name: str, reader: _Reader) -> bool:
        """Reads events until the server ends the stream. Whether it did so in good order."""
        after = f"?after={reader.last}" if reader.last else ""
        with self._connection.events(reader.path + after) as (response, events):
            # Before the look: either `forget` ends the answer, or its name is gone here.
            reader.response = response
            if name not in self._readers:
                return True
            for event in events:
                reader.last = int(event["seq"])
                if _is_between_cells(event):
                    reader.receive({**event, "session": name})
        return True


def _is_between_cells(event: Line) -> bool:
    return event["event"] in _KINDS and event.get("cell") is None
