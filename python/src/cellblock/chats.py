"""Conversations with an agent: questions over one session, which can be taken back and forked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from ._agent_runs import Conversation, events, events_async, last, last_async
from ._connection import Line
from ._operations import undo
from ._plans import Plan, drive, drive_async
from .errors import CellblockError, Ended, Refused
from .outcomes import AgentEvent, Outcome

if TYPE_CHECKING:
    from .records import Undone

# Makes the conversation of a chat, and the request with its first question.
ChatStart: TypeAlias = Callable[[str], tuple[Conversation, Line]]


class _Asked:
    """A question with its conversation, and whether its outcome came."""

    def __init__(self, conversation: Conversation, fields: Line) -> None:
        self.conversation = conversation
        self.fields = fields
        self.is_over = False


class _ChatBase:
    """What the two flavours of a chat have in common."""

    def __init__(self, start: ChatStart) -> None:
        self._start = start
        self._conversation: Conversation | None = None
        self._is_closed = False

    @contextmanager
    def _asking(self, question: str) -> Generator[_Asked]:
        """A question on its way. A run whose events are not read to the end is cancelled."""
        self._check_open()
        is_first = self._conversation is None
        if is_first:
            self._conversation, fields = self._start(question)
        elif not question.strip():
            raise Refused("the question is empty", "invalid")
        else:
            self._known().check_free()
            fields = {"op": "say", "question": question}
        asked = _Asked(self._known(), fields)
        core = asked.conversation.core
        try:
            yield asked
        except CellblockError:
            asked.is_over = True
            if is_first:
                # It never began: the next question begins it.
                asked.conversation.close()
                self._conversation = None
            raise
        finally:
            if not asked.is_over and core.is_open:
                core.connection.send_later({"op": "cancel", "session": core.name})

    def _known(self) -> Conversation:
        """The conversation, for what needs a question before it."""
        self._check_open()
        if self._conversation is None:
            raise Refused("nothing was asked in this chat yet: there is nothing to take back", "not_found")
        return self._conversation

    def _check_open(self) -> None:
        if self._is_closed:
            raise Ended("the conversation was closed", "ended")

    def _end(self) -> None:
        self._is_closed = True
        if self._conversation is not None:
            self._conversation.close()

    def __del__(self) -> None:
        if getattr(self, "_conversation", None) is not None:
            self._end()


class Chat(_ChatBase):
    """A conversation with an `Agent`. It is closed by `close()`, by `with agent.chat() as chat:`, or when it is dropped."""

    def ask(self, question: str) -> Outcome[Any]:
        """Asks a question and waits for the outcome. The model knows the questions before it, and their variables are there.

        A question during a run waits for its end; in a tool that the run waits for, it raises `Busy`.
        """
        return last(self.stream(question), Any)

    # The name of the operation on the pipe.
    say = ask

    def stream(self, question: str) -> Iterator[AgentEvent]:
        """Asks a question and gives the events as they come. Dropping the iterator cancels the run, not the conversation."""
        with self._asking(question) as asked:
            for event in events(asked.conversation, asked.fields):
                asked.is_over = event.kind == "outcome"
                yield event

    def undo(self, cells: int = 1) -> Undone:
        """Takes back the last cells of the conversation: variables and files are as before. The model is told so with the next
        question. Waits for a run that goes on; raises `Busy` where that run waits for a tool or an approval of this process.
        """
        core = self._known().core
        return drive(core.connection, core.name, undo(core, cells, None))

    def fork(self) -> Chat:
        """A second conversation that begins where this one stands, with the same messages, variables, files and tools. The two
        then go on by themselves; `undo` of the fork goes back as far as to here. Waits, or raises `Busy`, as `undo` does.
        """
        self._check_open()
        fork = Chat(self._start)
        if self._conversation is not None:
            core = self._conversation.core
            fork._conversation = self._conversation.forked(drive(core.connection, core.name, _fork()))
        return fork

    def close(self) -> None:
        """Ends the conversation and its session. Forks go on."""
        self._end()

    def __enter__(self) -> Chat:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncChat(_ChatBase):
    """`Chat` for programs with an event loop."""

    async def ask(self, question: str) -> Outcome[Any]:
        """Asks a question and waits for the outcome. Cancelling ends the run, not the conversation."""
        return await last_async(self.stream(question), Any)

    # The name of the operation on the pipe.
    say = ask

    async def stream(self, question: str) -> AsyncIterator[AgentEvent]:
        """Asks a question and gives the events as they come."""
        with self._asking(question) as asked:
            async for event in events_async(asked.conversation, asked.fields):
                asked.is_over = event.kind == "outcome"
                yield event

    async def undo(self, cells: int = 1) -> Undone:
        """Takes back the last cells of the conversation. The model is told so with the next question."""
        core = self._known().core
        return await drive_async(core.connection, core.name, undo(core, cells, None))

    async def fork(self) -> AsyncChat:
        """A second conversation that begins where this one stands. The two then go on by themselves."""
        self._check_open()
        fork = AsyncChat(self._start)
        if self._conversation is not None:
            core = self._conversation.core
            fork._conversation = self._conversation.forked(await drive_async(core.connection, core.name, _fork()))
        return fork

    async def close(self) -> None:
        """Ends the conversation and its session. Forks go on."""
        self._end()

    async def __aenter__(self) -> AsyncChat:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _fork() -> Plan[str]:
    forked = yield {"op": "fork"}
    return str(forked["session"])
