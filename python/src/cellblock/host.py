"""Where sessions live: a `Host` is this machine, a `Remote` is a server."""

from __future__ import annotations

import atexit
import os
import threading
from typing import cast

from ._binary import find_binary
from ._connection import Connection
from .errors import Ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    Packages = Literal["default", "none"]


class Host:
    """Sessions of this machine: which program runs them, and which Python they get.

    Most programs need none: `Session()` uses `Host()`. All sessions of one process whose hosts are equal share one child
    process, which is started with the first session and ended with this process.

    - `binary`: the program `cellblock`; else `CELLBLOCK_BIN`, else the one that came with this package.
    - `python`: the interpreter of the sessions; else the first good one on `PATH`.
    - `packages`: `"default"` for numpy, pandas and the like where `cellblock setup` has made them, `"none"` for the standard
      library alone.
    - `journal`: whether sessions write down what happens in them. `Session.notebook` and `Session.script` need that.
    """

    __slots__ = ("_binary", "_journal", "_packages", "_python")

    def __init__(
        self,
        binary: str | os.PathLike[str] | None = None,
        *,
        python: str | os.PathLike[str] | None = None,
        packages: Packages = "default",
        journal: bool = True,
    ) -> None:
        if packages not in ("default", "none"):
            raise ValueError(f"packages: expected 'default' or 'none', got {packages!r}")
        self._binary = None if binary is None else os.fspath(binary)
        self._python = None if python is None else os.fspath(python)
        self._packages: Packages = packages
        self._journal = journal

    def __repr__(self) -> str:
        given = {"binary": self._binary, "python": self._python}
        words = [f"{name}={value!r}" for name, value in given.items() if value is not None]
        words += ["packages='none'"] if self._packages == "none" else []
        words += [] if self._journal else ["journal=False"]
        return f"Host({', '.join(words)})"

    def binary(self) -> str:
        """The path of the program. Raises `BinaryError` when it is missing or too old."""
        return find_binary(self._binary)

    def pid(self) -> int | None:
        """The process id of the child that holds the sessions, or `None` when none is running."""
        with _lock:
            connection = _connections.get(self._key())
        return connection.pid if connection is not None and connection.is_usable else None

    def close(self) -> None:
        """Ends the child process with all sessions of this host. The next session starts a new one."""
        with _lock:
            connection = _connections.pop(self._key(), None)
        if connection is not None:
            connection.close()

    def _command(self) -> list[str]:
        options = [] if self._python is None else ["--python", self._python]
        options += ["--stdlib"] if self._packages == "none" else []
        options += [] if self._journal else ["--no-journal"]
        return [self.binary(), "pipe", *options]

    def _key(self) -> tuple[object, ...]:
        return (self._binary or os.environ.get("CELLBLOCK_BIN"), self._python, self._packages, self._journal)

    def _connect(self) -> Connection:
        """The running child of this host; a new one when there is none, or when the last one died."""
        return self._connected(self._key())

    def _connect_for_agent(self, key_variable: str | None) -> Connection:
        """A child that was started with the settings of agents that the environment has now: models, addresses and keys.

        Usually it is the child of the sessions. A program that changes its environment later gets another one.
        """
        connection = self._connect()
        settings = _agent_settings(os.environ, key_variable)
        if _agent_settings(connection.environment, key_variable) == settings:
            return connection
        return self._connected((*self._key(), settings))

    def _connected(self, key: tuple[object, ...]) -> Connection:
        with _lock:
            connection = _connections.get(key)
            if connection is None or not connection.is_usable:
                if _is_exiting:
                    raise Ended("this process is ending: no session can be opened any more", "ended")
                connection = Connection(self._command())
                _connections[key] = connection
                _all_connections[:] = [other for other in _all_connections if other.is_usable]
                _all_connections.append(connection)
        return connection


class Remote:
    """Sessions of a server, `cellblock serve`, on this or another machine: `Session(host=Remote(url, token))`.

    `token` is an API token of the server (`cb_…`). Cells, tools, variables, undo, forks, files, watches, processes, events and
    questions are the same as on this machine, and so are snapshots, which live as long as the server runs. A limit of the user
    that is reached raises `Refused`. What the server does not offer raises `Unsupported`.

    `Agent(host=Remote(url, token))` asks the agent of the server: with one of its models, within its limits. Tools, templates and
    approvals are answered by this process. What was asked stays in the server's list of chats.
    """

    __slots__ = ("_connection", "_token", "url")

    def __init__(self, url: str, token: str | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"url: expected an address such as https://sandbox.example.org, got {url!r}")
        self.url = url.rstrip("/")
        self._token = token
        self._connection: Connection | None = None

    def __repr__(self) -> str:
        return f"Remote({self.url!r})"

    def close(self) -> None:
        """Closes all sessions that were opened through this object and are still open."""
        with _lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connect_for_agent(self, _: str | None) -> Connection:
        """Models and keys are those of the server."""
        return self._connect()

    def _connect(self) -> Connection:
        from ._remote import RemoteConnection

        with _lock:
            connection = self._connection
            if connection is None or not connection.is_usable:
                # It has the methods of `Connection`, and no child process.
                connection = cast("Connection", RemoteConnection(self.url, self._token))
                self._connection = connection
                _all_connections.append(connection)
        return connection


_lock = threading.Lock()
_connections: dict[tuple[object, ...], Connection] = {}
# Also those of hosts that were closed meanwhile: a fork must close its copies of all descriptors.
_all_connections: list[Connection] = []
_is_exiting = False


def _agent_settings(environment: Mapping[str, str], key_variable: str | None) -> tuple[tuple[str, str], ...]:
    """The variables of an environment that a run of an agent reads."""

    def is_setting(name: str) -> bool:
        return (
            name.startswith(("CELLBLOCK_", "OPENAI_", "OTEL_", "XDG_"))
            or name.endswith("_API_KEY")
            or name.lower().endswith("_proxy")
            or name in ("HOME", key_variable)
        )

    return tuple(sorted(item for item in environment.items() if is_setting(item[0])))


def _close_all() -> None:
    """At the end of the process: no session outlives it, whatever its cells do."""
    global _is_exiting
    _is_exiting = True
    for connection in _all_connections:
        connection.close(patience=7.0)


def _after_fork_in_child() -> None:
    """The threads of the parent are not here, and its child is not ours: what is opened from now on gets a child of its own."""
    global _lock
    _lock = threading.Lock()
    for connection in _all_connections:
        connection.abandon()
    _all_connections.clear()
    _connections.clear()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
