"""Agents of a server: a conversation is a chat of the server, and each question is a run of it.

The server answers with its own models and limits. Tools and approvals are answered by this process, as on the pipe.
"""

from __future__ import annotations

import threading
import time
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ._connection import Line, Receive
from .errors import Busy, CellblockError, Ended

if TYPE_CHECKING:
    from ._remote import RemoteConnection

# The options of an agent that a server takes. It decides about the others itself.
OPTIONS = frozenset(("model", "verify", "max_steps", "max_time", "max_tokens", "max_cost"))
# Operations that begin or belong to a run.
OPERATIONS = frozenset(("ask", "template", "say", "cancel", "approve"))
# How often a stream that broke off is taken up again without a new event in between.
_MAX_BREAKS = 5
# What a server adds to the events of a run.
_OWN_EVENTS = ("session", "approval_decided")
_OWN_FIELDS = ("seq", "run", "session")


class RemoteAgents:
    """The conversations of one connection, by the names that this process gave them."""

    def __init__(self, connection: RemoteConnection) -> None:
        self._connection = connection
        self._chats: dict[str, _Chat] = {}

    def has(self, name: str) -> bool:
        """Whether there is a conversation of this name."""
        return name in self._chats

    def names(self) -> list[str]:
        """The names of all conversations."""
        return list(self._chats)

    def do(self, name: str, operation: str, given: Line, receive: Receive) -> Any:
        """Does an operation. Returns the answer, or `None` when `receive` was given everything."""
        if operation in ("ask", "template"):
            options: Line = given.get("options", {})
            common = {key: value for key, value in options.items() if key in OPTIONS}
            common["tools"] = given.get("tools", [])
            self._chats[name] = chat = _Chat(self._connection, name, common, decides=bool(given.get("approvals")))
            chat.begin(operation, given, receive)
            return None
        found = self._chats.get(name)
        if found is None:
            raise Ended("the conversation was closed", "ended")
        if operation == "say":
            found.say(given["question"], receive)
            return None
        if operation == "undo":
            return found.undo(given)
        if operation == "fork":
            fork = self._connection.new_session_name()
            self._chats[fork] = found.fork(fork)
            return {"session": fork}
        if operation == "close":
            del self._chats[name]
            found.close()
        elif operation == "cancel":
            found.cancel()
        elif operation == "tool_result":
            found.post("tool_result", given)
        elif operation == "approve":
            found.decide(given)
        return {}


class _Chat:
    """One conversation."""

    def __init__(self, connection: RemoteConnection, name: str, common: Line, *, decides: bool) -> None:
        self._connection = connection
        self._name = name
        # Each question of a chat brings these along.
        self._common = common
        self._decides = decides
        self._chat: str | None = None
        self._run: str | None = None
        self._is_closed = False
        # What is asked of a chat is done one after the other.
        self._turn = threading.Lock()
        # The calls of the run of now that this process has not answered.
        self._calls: set[str] = set()

    def begin(self, operation: str, given: Line, receive: Receive) -> None:
        """The first question."""
        with self._turn:
            self._begin(operation, given, receive)

    def _begin(self, operation: str, given: Line, receive: Receive) -> None:
        own: Line = {key: given[key] for key in ("schema", "seed") if key in given}
        body: Line = {**self._common, **own}
        if operation == "template":
            run = self._json("/v1/runs", {**body, "template": given["template"], "arguments": given["arguments"]})
            self._chat = run["chat"]
            self._follow(run["id"], receive)
            return
        model = self._common.get("model")
        self._chat = self._json("/v1/chats", {} if model is None else {"model": model})["id"]
        self._ask({**body, "text": given["question"] + self._put_files(given.get("files", []))}, receive)

    def say(self, question: str, receive: Receive) -> None:
        """A later question."""
        with self._turn:
            self._ask({**self._common, "text": question}, receive)

    def undo(self, given: Line) -> Any:
        """Takes back the last cells."""
        return self._when_free("undo", given)

    def fork(self, name: str) -> _Chat:
        """A second chat that begins where this one stands."""
        fork = _Chat(self._connection, name, self._common, decides=self._decides)
        fork._chat = self._when_free("fork", {})["id"]
        return fork

    def _when_free(self, what: str, body: Line) -> Any:
        """Does something to the chat when its run is over."""
        if self._calls:
            # It may well be the tool that the run waits for which asks: it would wait for itself.
            raise Busy("the run waits for the answer to a call; answer it first, or cancel the run", "busy")
        with self._turn:
            return self._json(f"/v1/chats/{self._chat}/{what}", body)

    def cancel(self) -> None:
        """Ends the run of now, if there is one."""
        if self._run is None:
            return
        try:
            self.post("cancel", {})
        except CellblockError as error:
            if error.code != "ended":
                raise

    def close(self) -> None:
        """Ends the run and the session. The questions and answers stay in the server's list of chats."""
        self._is_closed = True
        self.cancel()
        if self._chat is not None:
            session = self._connection._json("GET", f"/v1/chats/{self._chat}")["session"]
            if session is not None:
                self._connection._json("DELETE", f"/v1/sessions/{session}")

    def post(self, what: str, body: Line) -> None:
        """Tells the run of now something."""
        self._calls.discard(str(body.get("call")))
        if self._run is None:
            raise Ended("no run goes on", "ended")
        self._json(f"/v1/runs/{self._run}/{what}", body)

    def decide(self, given: Line) -> None:
        """Decides about a call that waits for approval."""
        self._calls.discard(given["call"])
        self.post(f"approvals/{quote(given['call'])}", {key: value for key, value in given.items() if key != "call"})

    def _ask(self, body: Line, receive: Receive) -> None:
        self._follow(self._json(f"/v1/chats/{self._chat}/messages", body)["id"], receive)

    def _put_files(self, paths: list[str]) -> str:
        """Puts files into the workspace. Returns what is added to the question."""
        if not paths:
            return ""
        session = self._json(f"/v1/chats/{self._chat}/session", {})["id"]
        names = [Path(path).name for path in paths]
        for path, name in zip(paths, names, strict=True):
            self._connection._bytes("PUT", f"/v1/sessions/{session}/files/{quote(name)}", Path(path).read_bytes())
        return f"\n\nFiles in the workspace: {', '.join(names)}"

    def _follow(self, run: str, receive: Receive) -> None:
        """Passes the events of a run on until its outcome. A stream that breaks off is taken up again."""
        self._run = run
        if self._is_closed:
            self.cancel()  # it was closed while the question was on its way
        last, breaks = 0, 0
        while True:
            try:
                for event in self._connection._stream(f"/v1/runs/{run}/events?after={last}"):
                    last, breaks = int(event["seq"]), 0
                    if self._pass_on(run, event, receive):
                        return
                raise Ended("the server ended the stream before the run was over", "ended")
            except (OSError, HTTPException, Ended):
                breaks += 1
                if breaks > _MAX_BREAKS:
                    raise
                time.sleep(0.1 * breaks)

    def _pass_on(self, run: str, event: Line, receive: Receive) -> bool:
        """Gives an event to the receiver, as the pipe would. Returns whether it was the last one."""
        kind = event["event"]
        line = {key: value for key, value in event.items() if key not in _OWN_FIELDS}
        if kind == "outcome":
            self._run = None
            self._calls.clear()
            receive({**self._outcome(run, line), "session": self._name})
            return True
        if kind == "approval":
            if self._decides:
                call = {"event": "approval_request", "call": line.pop("approval")}
                self._calls.add(call["call"])
                receive({**line, **call, "session": self._name})
            else:
                self._refuse(line["approval"])
        elif kind not in _OWN_EVENTS:
            if kind == "tool_call":
                self._calls.add(line["call"])
            receive({**line, "session": self._name})
        return False

    def _refuse(self, approval: str) -> None:
        text = "the program that asked decides about no calls; it can, with Agent(approve=...)"
        try:
            self.decide({"call": approval, "decision": "reject", "text": text})
        except CellblockError:
            pass  # a person decided on a page of the server, or the run is over

    def _outcome(self, run: str, told: Line) -> Line:
        if told["status"] == "error":
            return {"event": "error", "code": "agent", "message": told["message"]}
        outcome = self._connection._json("GET", f"/v1/runs/{run}/record")["outcome"]
        if outcome is None:
            # The server stops: the run is not over for it, and has no record of its end.
            outcome = {**told, "steps": []}
        return {"event": "outcome", "outcome": outcome}

    def _json(self, path: str, body: Line) -> Any:
        return self._connection._json("POST", path, body)
