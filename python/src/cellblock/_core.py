"""What `Session` and `AsyncSession` have in common: the session's name, its tools, and what is known of its cells.

A core never refers to the session object of the user, so that dropping the session ends it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ._connection import Connection, Line
from .errors import Ended
from .host import Host, Remote

# What only some sessions need is imported where it is used: importing the package should cost little.
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from .approval import Policy
    from .events import Event
    from .options import Container, EnvLike, LimitsLike, NetworkLike
    from .tools import Tool

    InputFunction = Callable[[str], Any]


class Core:
    """One session: open or not, with everything that is needed to ask something of it."""

    def __init__(
        self,
        host: Host | Remote,
        tools: dict[str, Tool[..., Any]],
        approve: Policy,
        input: InputFunction | None,
        on_log: Callable[[Event], None] | None,
    ) -> None:
        self.host = host
        self.tools = tools
        self.approve: Policy = approve
        self.input = input
        self.on_log = on_log
        self.open_fields: Line = {}
        self.workspace: str | None = None
        self.workspace_at = "/workspace"
        # In a fork: what it does not have of its parent.
        self.not_copied: list[str] = []
        self._name: str | None = None
        self._connection: Connection | None = None
        self._closed: str | None = None
        # A signal handler may ask something while its thread notes a result.
        self._lock = threading.RLock()
        self.cells_sent = 0
        self.cells_done = 0
        self._kept: list[int] = []
        self._restored_cell = 0
        self._names: dict[str, int] = {}

    @property
    def connection(self) -> Connection:
        """The way to the session. Raises `Ended` after `close`, and before the session was opened."""
        if self._closed is not None:
            raise Ended(self._closed, "ended")
        if self._connection is None:
            raise Ended(
                "the session is not open yet: use `async with AsyncSession() as session`, or `await session.open()`", "ended"
            )
        return self._connection

    @property
    def name(self) -> str:
        """The session's name on the pipe."""
        return self._name or str(self.open_fields.get("session", ""))

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._connection is not None and self._closed is None and self._connection.is_usable

    @property
    def was_opened(self) -> bool:
        """Whether the session was opened, be it closed again or not."""
        return self._connection is not None or self._closed is not None

    def attach(self, connection: Connection, name: str) -> None:
        """The session is open under this name."""
        self._name = name
        self._connection = connection
        connection.listen(name, self._hear)
        if self.on_log is not None:
            connection.follow_logs(name, self._hear)

    def mark_closed(self, reason: str = "the session was closed") -> None:
        """No more requests."""
        self._closed = self._closed or reason
        if self._connection is not None:
            self._connection.forget(self.name)

    def end(self) -> tuple[Connection, str]:
        """No more requests but the last one, `close`. A cell that still runs is interrupted, so that it need not be awaited."""
        connection, name = self.connection, self.name
        if self.cells_sent > self.cells_done:
            connection.send_later({"op": "interrupt", "session": name})
        self.mark_closed()
        return connection, name

    def drop(self) -> None:
        """Closes the session without waiting. For finalizers: takes no lock and raises nothing."""
        if self._closed is None and self._connection is not None:
            self._closed = "the session was dropped"
            self._connection.forget(self.name)
            self._connection.send_later({"op": "close", "session": self.name})

    def forked(self, name: str) -> Core:
        """The core of a fork of this session."""
        fork = Core(self.host, dict(self.tools), self.approve, self.input, self.on_log)
        fork.workspace_at = self.workspace_at
        fork.attach(self.connection, name)
        with self._lock:
            fork._kept = []
        return fork

    def note_result(self, result: dict[str, Any]) -> None:
        """A cell is over: `undo` counts those whose effects were kept."""
        state, cell = result["state"], result["cell"]
        # Whatever is noted here may come twice, when Ctrl-C comes with the result.
        with self._lock:
            if state["outcome"] == "kept" and cell > 0 and self._kept[-1:] != [cell]:
                self._kept.append(cell)
            elif state["outcome"] == "restored" and cell != self._restored_cell:
                # An older checkpoint was woken: the effects of the last cells went with this one.
                behind = state["checkpoint"]["behind"]
                self._kept, self._restored_cell = self._kept[: max(0, len(self._kept) - behind)], cell
        if state["outcome"] == "ended":
            self._closed = "the session ended with a cell that could not be taken back; open a new one"

    def note_undo(self, cell: int) -> None:
        """The state stands after this cell now."""
        with self._lock:
            self._kept = [kept for kept in self._kept if kept <= cell]
            self._names = {name: at for name, at in self._names.items() if at <= cell}

    def last_cell(self) -> int:
        """The last cell whose effects are there; 0 at the beginning."""
        with self._lock:
            return self._kept[-1] if self._kept else 0

    def cells_after(self, cell: int) -> int:
        """How many cells must be taken back to stand after this one."""
        with self._lock:
            return sum(1 for kept in self._kept if kept > cell)

    def name_checkpoint(self, name: str, cell: int) -> None:
        """Gives a state a name."""
        with self._lock:
            self._names[name] = cell

    def named_cell(self, name: str) -> int | None:
        """The cell after which a named state stands."""
        with self._lock:
            return self._names.get(name)

    def names_of(self, cell: int) -> str | None:
        """The newest name of the state after a cell."""
        with self._lock:
            return next((name for name, at in reversed(self._names.items()) if at == cell), None)

    def _hear(self, line: Line) -> None:
        if line["event"] == "restored":
            # The process died between two cells: what came after the checkpoint is gone.
            self.note_undo(line["checkpoint"])
        if self.on_log is None:
            return
        from .events import event_from

        event = event_from(line)
        if event is None:
            return
        try:
            self.on_log(event)
        except Exception as error:
            import sys

            sys.excepthook(type(error), error, error.__traceback__)


def new_core(
    *,
    name: str | None,
    host: Host | Remote | None,
    workspace: str | os.PathLike[str] | None,
    workspace_at: str | None,
    env: EnvLike,
    imports: Iterable[str],
    seed: Mapping[str, Any] | None,
    setup: str | None,
    tools: Iterable[Any],
    approve: Policy,
    input: InputFunction | None,
    limits: LimitsLike,
    network: NetworkLike,
    isolation: str | Mapping[str, Any] | None,
    atomic: bool,
    strategy: str | None,
    arming: str | None,
    replay: bool | float | str | None,
    container: Container | str | None,
    on_log: Callable[[Event], None] | None,
) -> Core:
    """A core with the fields of `open`, checked as far as this can be done here. Nothing is started."""
    core = Core(host if host is not None else Host(), _tools(tools), approve, input, on_log)
    variables, code = _seeds(seed)
    rules, credentials = _network(network)
    given: Line = {
        "session": name,
        "workspace": _absolute(workspace),
        "workspace_at": workspace_at,
        "env": env if env is None or isinstance(env, str) else env.word(),
        "imports": list(imports),
        "seed": variables,
        "setup": "\n".join(part for part in (code, setup) if part),
        "limits": _limits(limits),
        "network": rules,
        "credentials": credentials,
        "isolation": isolation,
        "atomic": atomic,
        "strategy": strategy,
        "arming": arming,
        "container": None if container is None else {"image": getattr(container, "image", container)},
    }
    core.open_fields = {key: value for key, value in given.items() if value not in (None, "", [], {}, False)}
    if replay is not None:  # `False` is an answer, too
        core.open_fields["replay"] = replay
    core.workspace = given["workspace"]
    core.workspace_at = workspace_at or core.workspace_at
    return core


def _tools(given: Iterable[Any]) -> dict[str, Tool[..., Any]]:
    listed = list(given)
    if not listed:
        return {}
    from .tools import tools_from

    return tools_from(listed)


def _seeds(given: Mapping[str, Any] | None) -> tuple[dict[str, Any], str]:
    if not given:
        return {}, ""
    from ._seeds import seeds_from

    return seeds_from(given)


def _limits(given: LimitsLike) -> dict[str, Any]:
    if given is None:
        return {}
    from .options import limits_json

    return limits_json(given)


def _network(given: NetworkLike) -> tuple[list[str], list[str]]:
    if given is None:
        return [], []
    from .options import network_from

    network = network_from(given)
    return network.rules, network.credentials


def _absolute(path: str | os.PathLike[str] | None) -> str | None:
    import os

    return None if path is None else os.path.abspath(path)  # noqa: PTH100
