"""Messages between widgets and their front ends: the backend of Jupyter's `comm` package in a session."""

from __future__ import annotations

from . import BUILTINS as __builtins__
from . import hooks, wire
from .libraries import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .wire import Frame

_KINDS = {"comm_open": "open", "comm_msg": "msg", "comm_close": "close"}
_manager: list[Any] = []


def connect(emit: Callable[[Frame], None]) -> None:
    """Send the messages of widgets to the host from the moment that `comm` is imported."""
    hooks.after_import("comm", lambda: _replace_backend(emit))


def deliver(text: str) -> None:
    """Hand a message of a front end to the widget that it is for. The host runs this as a cell."""
    message = wire.decode(text.encode())
    if not _manager:
        import comm  # type: ignore[import-not-found]  # widgets need it, so it is installed where one exists

        del comm
    content = {"comm_id": message["comm"], "data": message.get("data") or {}}
    if message.get("target") is not None:
        content["target_name"] = message["target"]
    handle = getattr(_manager[0], "comm_" + message["kind"])
    buffers = [wire.from_base64(buffer) for buffer in message.get("buffers") or []]
    kind = next(name for name, short in _KINDS.items() if short == message["kind"])
    handle(
        None,
        None,
        {
            "header": {"msg_type": kind},
            "parent_header": {},
            "metadata": message.get("metadata") or {},
            "content": content,
            "buffers": buffers,
        },
    )


def _replace_backend(emit: Callable[[Frame], None]) -> None:
    package: Any = modules["comm"]
    from comm.base_comm import BaseComm, CommManager  # type: ignore[import-not-found]

    class Comm(BaseComm):  # type: ignore[misc]
        """A channel to a front end of the session."""

        def publish_msg(self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **keys: Any) -> None:
            frame: Frame = {"t": "comm", "kind": _KINDS[msg_type], "comm": self.comm_id, "data": wire.plain(data or {}, "data")}
            if msg_type == "comm_open":
                frame["target"] = keys.get("target_name") or self.target_name
            if metadata:
                frame["metadata"] = wire.plain(metadata, "metadata")
            if buffers:
                frame["buffers"] = [wire.as_base64(memoryview(buffer).cast("B")) for buffer in buffers]
            emit(frame)

    manager = CommManager()
    _manager[:] = [manager]
    package.create_comm = Comm
    package.get_comm_manager = lambda: manager
