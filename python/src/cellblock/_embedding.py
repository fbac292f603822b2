"""Plans for editors, for files by absolute path, and for readers of all events of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._operations import PART_BYTES
from ._transfer import MIN_COPIED_BYTES, copy_in, copy_out

if TYPE_CHECKING:
    from ._core import Core
    from ._plans import Plan
    from .events import Numbered
    from .records import Completeness, Completion, PathStat

# How long one request waits for the next event.
EVENT_WAIT_SECONDS = 10.0


def complete(code: str, pos: int | None) -> Plan[list[Completion]]:
    from .records import Completion

    answer = yield _at({"op": "complete", "code": code}, pos)
    return [Completion(**item) for item in answer["matches"]]


def inspect_at(code: str, pos: int | None, detail: int) -> Plan[dict[str, Any] | None]:
    answer = yield _at({"op": "inspect_at", "code": code, "detail": detail}, pos)
    return dict(answer["mime"]) if answer["found"] else None


def is_complete(code: str) -> Plan[Completeness]:
    from .records import Completeness

    answer = yield {"op": "is_complete", "code": code}
    return Completeness(answer["status"], answer["indent"])


def _at(fields: dict[str, Any], pos: int | None) -> dict[str, Any]:
    return fields if pos is None else {**fields, "pos": pos}


def pause() -> Plan[None]:
    yield {"op": "pause"}


def resume() -> Plan[None]:
    yield {"op": "resume"}


def freeze(name: str | None) -> Plan[str]:
    answer = yield {"op": "freeze"} if name is None else {"op": "freeze", "name": name}
    return str(answer["snapshot"])


def open_from(core: Core, snapshot: str) -> Plan[Core]:
    answer = yield {"op": "open", "from": snapshot}
    return core.forked(answer["session"])


def discard(snapshot: str) -> Plan[None]:
    yield {"op": "discard", "snapshot": snapshot}


def events(after: int, wait: float) -> Plan[tuple[list[Numbered], int, bool]]:
    """The events after a number, the number to go on after, and whether the session is over."""
    from .events import Numbered, event_from

    answer = yield {"op": "events", "after": after, "wait": wait} if wait else {"op": "events", "after": after}
    found: list[Numbered] = []
    for line in answer["events"]:
        event = event_from(line)
        if event is not None:
            found.append(Numbered(line["seq"], line.get("cell"), event))
    return found, answer["last"], answer["ended"]


def stat(path: str) -> Plan[PathStat]:
    from .records import PathStat

    return PathStat(**(yield {"op": "stat", "path": path}))


def list_dir(path: str, depth: int) -> Plan[list[PathStat]]:
    from .records import PathStat

    return [PathStat(**item) for item in (yield {"op": "list_dir", "path": path, "depth": depth})]


def make_dir(path: str) -> Plan[None]:
    yield {"op": "make_dir", "path": path}


def move(path: str, to: str) -> Plan[None]:
    yield {"op": "move", "path": path, "to": to}


def remove(path: str) -> Plan[None]:
    yield {"op": "remove", "path": path}


def read(path: str) -> Plan[bytes]:
    """A whole file. One that is longer than a part is copied as an open file, or read in parts where that is not possible."""
    from base64 import b64decode

    parts: list[bytes] = []
    offset = 0
    while True:
        answer = yield {"op": "read", "path": path, "offset": offset, "length": PART_BYTES}
        part = b64decode(answer["base64"])
        if offset == 0 and not answer["eof"]:
            whole = yield from copy_out(path)
            if whole is not None:
                return whole
        parts.append(part)
        offset += len(part)
        if answer["eof"]:
            return b"".join(parts)


def write(path: str, contents: bytes) -> Plan[None]:
    """A whole file: copied as an open file, or written in parts, the first of which cuts off what was there."""
    from base64 import b64encode

    if len(contents) >= MIN_COPIED_BYTES and (yield from copy_in(path, contents)):
        return

    view = memoryview(contents)
    for start in range(0, max(len(view), 1), PART_BYTES):
        text = b64encode(view[start : start + PART_BYTES]).decode("ascii")
        yield {"op": "write", "path": path, "offset": start, "base64": text, "truncate": True}
