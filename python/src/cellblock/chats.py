"""Conversations with an agent: questions over one session, which can be taken back and forked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
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


class _ChatBase:
    """What the two flavours of a chat have in common."""

    def __init__(self, start: ChatStart) -> None:
        self._start = start
        self._conversation: Conversation | None = None
        self._is_closed = False

    def _begin(self, question: str) -> tuple[Conversation, Line]:
        """The conversation, and the request that asks a question of it."""
        self._check_open()
        if self._conversation is not None:
            if not question.strip():
                raise Refused("the question is empty", "invalid")
            return self._conversation, {"op": "say", "question": question}
        self._conversation, fields = self._start(question)
        return self._conversation, fields

    def _give_up(self, conversation: Conversation, *, is_over: bool) -> None:
        """Ends a run whose events are not read to the end."""
        if not is_over and conversation.core.is_open:
            conversation.core.connection.send_later({"op": "cancel", "session": conversation.core.name})

    def _never_began(self, fields: Line) -> None:
        """A first question that is refused leaves no conversation: the next question begins it."""
        if fields["op"] != "say" and self._conversation is not None:
            self._conversation.close()
            self._conversation = None

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
        """Asks a question and waits for the outcome. The model knows the questions before it, and their variables are there."""
        return last(self.stream(question), Any)

    # The name of the operation on the pipe.
    say = ask

    def stream(self, question: str) -> Iterator[AgentEvent]:
        """Asks a question and gives the events as they come. Dropping the iterator cancels the run, not the conversation."""
        conversation, fields = self._begin(question)
        is_over = False
        try:
            for event in events(conversation, fields):
                is_over = event.kind == "outcome"
                yield event
        except CellblockError:
            is_over = True
            self._never_began(fields)
            raise
        finally:
            self._give_up(conversation, is_over=is_over)

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
        conversation, fields = self._begin(question)
        is_over = False
        try:
            async for event in events_async(conversation, fields):
                is_over = event.kind == "outcome"
                yield event
        except CellblockError:
            is_over = True
            self._never_began(fields)
            raise
        finally:
            self._give_up(conversation, is_over=is_over)

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
