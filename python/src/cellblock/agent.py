"""A model that computes its answers: it writes code, the code runs in a sealed session, and the answer comes back checked."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, overload

from ._agent_runs import MODES, Conversation, asks_client, outcome_of
from ._connection import Line
from ._seeds import seeds_from
from ._types import convert, schema_of
from .errors import AgentFailed, Refused, Unsupported, WrongValue
from .host import Host, Remote
from .options import EnvLike, LimitsLike, NetworkLike, limits_json, network_from
from .tools import tools_from

if TYPE_CHECKING:
    from .approval import Policy

T = TypeVar("T")
Approval = Literal["never", "effects", "code", "tools", "all"]
Format = Literal["tools", "json", "xml", "markdown", "next_step"]

# The limits of a session, as options of a run.
_LIMIT_OPTIONS = {
    "wall": "timeout",
    "memory": "memory",
    "processes": "processes",
    "cpus": "cpus",
    "disk": "disk",
    "open_files": "open_files",
}


class AgentEvent(NamedTuple):
    """Something that happens in a run: `kind` is `thought_part`, `code`, `cell`, `answer`, …; `data` is the rest of the event."""

    kind: str
    data: dict[str, Any]


class Outcome(Generic[T]):
    """How a run ended. There is always one: an answer, or the reason why there is none and the last that was reached."""

    __slots__ = ("answer", "raw")

    def __init__(self, raw: dict[str, Any], kind: Any = Any) -> None:
        #: The whole outcome as it came.
        self.raw = raw
        #: The answer, of the type that was asked for; `None` where there is none.
        self.answer: T | None = None if raw["answer"] is None else convert(raw["answer"], kind, "the answer")

    @property
    def ok(self) -> bool:
        """Whether there is an answer."""
        return bool(self.status == "answered")

    @property
    def status(self) -> str:
        """`answered`, or why there is no answer: `max_steps`, `stuck`, `model_error`, … (docs/agent.md lists them)."""
        return str(self.raw["status"])

    @property
    def message(self) -> str | None:
        """Why there is no answer, in words."""
        message: str | None = self.raw["message"]
        return message

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What the model thought and did, in order."""
        return list(self.raw["steps"])

    @property
    def usage(self) -> dict[str, Any]:
        """The tokens that it took."""
        return dict(self.raw["usage"])

    @property
    def cost(self) -> Any:
        """What the tokens cost, where prices are known."""
        return self.raw["cost"]

    @property
    def warnings(self) -> list[str]:
        """What you should know before you rely on the answer."""
        return list(self.raw["warnings"])

    @property
    def seconds(self) -> float:
        """How long the run took."""
        return float(self.raw["ms"]) / 1000

    def check(self) -> T:
        """The answer. Raises `AgentFailed` when there is none."""
        if not self.ok:
            raise AgentFailed(f"no answer ({self.status}): {self.message or self.raw.get('reached') or ''}", self)
        return self.answer  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"<Outcome {self.status}, {len(self.steps)} steps, answer {self.answer!r}>"


class _AgentBase:
    """The options of `Agent` and `AsyncAgent`."""

    def __init__(
        self,
        model: str | None = None,
        *,
        base_url: str | None = None,
        key_variable: str | None = None,
        format: Format | None = None,
        tools: Iterable[Any] = (),
        approve: Approval | Policy = None,
        max_steps: int | None = None,
        max_time: float | str | None = None,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        imports: Iterable[str] = (),
        env: EnvLike = None,
        limits: LimitsLike = None,
        network: NetworkLike = None,
        isolation: str | None = None,
        workspace: str | os.PathLike[str] | None = None,
        workspace_at: str | None = None,
        config: str | os.PathLike[str] | None = None,
        verify: bool = False,
        record: str | os.PathLike[str] | None = None,
        host: Host | Remote | None = None,
    ) -> None:
        self._host = Host() if host is None else host
        self._tools = tools_from(tools)
        self._approve: Any = approve
        rules = network_from(network) if network is not None else None
        given: dict[str, Any] = {
            "model": model,
            "base_url": base_url,
            "key_variable": key_variable,
            "format": format,
            "approve": approve if isinstance(approve, str) and approve in MODES else None,
            "max_steps": max_steps,
            "max_time": max_time,
            "record": None if record is None else os.path.abspath(record),  # noqa: PTH100
            "max_tokens": max_tokens,
            "max_cost": max_cost,
            "isolation": isolation,
            "workspace": None if workspace is None else os.path.abspath(workspace),  # noqa: PTH100
            "workspace_at": workspace_at,
            "config": None if config is None else os.path.abspath(config),  # noqa: PTH100
            "env": env if env is None or isinstance(env, str) else env.word(),
            "verify": verify or None,
            "import": list(imports) or None,
            "allow_net": rules.rules if rules else None,
            "credential": rules.credentials if rules else None,
        }
        for name, value in (limits_json(limits) if limits is not None else {}).items():
            if name not in _LIMIT_OPTIONS:
                raise Refused(f"limits: {name} cannot be set for an agent; it has {', '.join(_LIMIT_OPTIONS)}", "invalid")
            given[_LIMIT_OPTIONS[name]] = value
        self._options = {name: value for name, value in given.items() if value is not None}
        if isinstance(host, Remote):
            _check_remote(self._options)

    def _conversation(self, run: _Run) -> Conversation:
        return Conversation(self._host, {**self._tools, **run.tools}, self._approve, self._options.get("key_variable"))

    def _fields(self, run: _Run, conversation: Conversation, *, keep: bool = False) -> Line:
        fields: Line = {**run.fields, "options": self._options}
        if conversation.core.tools:
            fields["tools"] = [one.spec() for one in conversation.core.tools.values()]
        if asks_client(self._approve):
            fields["approvals"] = True
        if keep:
            fields["keep"] = True
        return fields


def _check_remote(options: Mapping[str, Any]) -> None:
    from ._remote_agents import OPTIONS

    others = sorted(options.keys() - OPTIONS)
    if others:
        raise Unsupported(
            f"{', '.join(others)}: an agent of a server takes model, verify, tools, max_steps, max_time, max_tokens, max_cost "
            "and a function for approve; "
            "the operator of the server decides about the rest",
            "unsupported",
        )


class Agent(_AgentBase):
    """A model with a sealed Python: `Agent(model="gpt-4o-mini").ask("How many primes are below a million?").answer`.

    Model, address and key come from the arguments, else from the variables and the configuration that `cellblock ask` reads.
    `tools` are functions of yours that the model and its code can call; they run in this process. `approve` is a function that
    is asked before calls that change something outside (see `Approve`), or a mode: `"never"`, `"effects"`, `"code"`, `"tools"`,
    `"all"`. `max_steps`, `max_time`, `max_tokens` and `max_cost` bound a run. `record` keeps the exchanges with the model in a
    new file, and `model="replay:FILE"` gives them again. The other options are those of a session.
    """

    @overload
    def ask(
        self, question: str, *, files: Iterable[str | os.PathLike[str]] = ..., seed: Mapping[str, Any] | None = ...
    ) -> Outcome[Any]: ...
    @overload
    def ask(
        self,
        question: str,
        *,
        returns: type[T],
        files: Iterable[str | os.PathLike[str]] = ...,
        seed: Mapping[str, Any] | None = ...,
    ) -> Outcome[T]: ...
    def ask(
        self,
        question: str,
        *,
        returns: Any = None,
        files: Iterable[str | os.PathLike[str]] = (),
        seed: Mapping[str, Any] | None = None,
    ) -> Outcome[Any]:
        """Asks a question and waits for the outcome. `returns` is the type of the answer, `files` go into the workspace, `seed`
        are variables for the code. A run without an answer is an outcome too: look at `ok`, or call `check()`. Ctrl-C ends it.
        """
        return self._finish(_Run.of_question(question, returns, files, seed))

    def stream(
        self, question: str, *, files: Iterable[str | os.PathLike[str]] = (), seed: Mapping[str, Any] | None = None
    ) -> Iterator[AgentEvent]:
        """Asks a question and gives the events as they come. The last one is `outcome`. Dropping the iterator cancels the run."""
        run = _Run.of_question(question, None, files, seed)
        conversation = self._conversation(run)
        try:
            yield from _events(conversation, self._fields(run, conversation))
        finally:
            conversation.close()

    def chat(self, *, files: Iterable[str | os.PathLike[str]] = (), seed: Mapping[str, Any] | None = None) -> Chat:
        """A conversation: the model remembers what was said, and its session keeps its variables."""
        return Chat(self, files, seed)

    def _finish(self, run: _Run) -> Outcome[Any]:
        conversation = self._conversation(run)
        try:
            return _last(_events(conversation, self._fields(run, conversation)), run.kind)
        finally:
            conversation.close()


class Chat:
    """A conversation with an `Agent`. It is closed by `close()`, by `with agent.chat() as chat:`, or when it is dropped."""

    def __init__(self, agent: Agent, files: Iterable[str | os.PathLike[str]], seed: Mapping[str, Any] | None) -> None:
        self._agent = agent
        self._first: Any = (list(files), seed)
        self._conversation: Conversation | None = None

    def say(self, question: str) -> Outcome[Any]:
        """Says something and waits for the outcome."""
        return _last(self.stream(question), Any)

    def stream(self, question: str) -> Iterator[AgentEvent]:
        """Says something and gives the events as they come. Dropping the iterator cancels the run, not the conversation."""
        conversation, fields = self._begin(question)
        is_over = False
        try:
            for event in _events(conversation, fields):
                is_over = event.kind == "outcome"
                yield event
        finally:
            if not is_over and conversation.core.is_open:
                conversation.core.connection.send_later({"op": "cancel", "session": conversation.core.name})

    def _begin(self, question: str) -> tuple[Conversation, Line]:
        if self._conversation is not None:
            return self._conversation, {"op": "say", "question": question}
        files, seed = self._first
        run = _Run.of_question(question, None, files, seed)
        conversation = self._agent._conversation(run)
        fields = self._agent._fields(run, conversation, keep=True)
        self._conversation = conversation
        return conversation, fields

    def close(self) -> None:
        """Ends the conversation and its session."""
        if self._conversation is not None:
            self._conversation.close()

    def __enter__(self) -> Chat:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_conversation", None) is not None:
            self.close()


class AsyncAgent(_AgentBase):
    """`Agent` for programs with an event loop: the same options and names, awaited."""

    async def ask(
        self,
        question: str,
        *,
        returns: Any = None,
        files: Iterable[str | os.PathLike[str]] = (),
        seed: Mapping[str, Any] | None = None,
    ) -> Outcome[Any]:
        """Asks a question and waits for the outcome. Cancelling ends the run."""
        return await self._finish(_Run.of_question(question, returns, files, seed))

    async def stream(
        self, question: str, *, files: Iterable[str | os.PathLike[str]] = (), seed: Mapping[str, Any] | None = None
    ) -> AsyncIterator[AgentEvent]:
        """Asks a question and gives the events as they come. The last one is `outcome`."""
        run = _Run.of_question(question, None, files, seed)
        conversation = self._conversation(run)
        try:
            async for event in _events_async(conversation, self._fields(run, conversation)):
                yield event
        finally:
            conversation.close()

    def chat(self, *, files: Iterable[str | os.PathLike[str]] = (), seed: Mapping[str, Any] | None = None) -> AsyncChat:
        """A conversation: the model remembers what was said, and its session keeps its variables."""
        return AsyncChat(self, files, seed)

    async def _finish(self, run: _Run) -> Outcome[Any]:
        conversation = self._conversation(run)
        try:
            return await _last_async(_events_async(conversation, self._fields(run, conversation)), run.kind)
        finally:
            conversation.close()


class AsyncChat:
    """`Chat` for programs with an event loop."""

    def __init__(self, agent: AsyncAgent, files: Iterable[str | os.PathLike[str]], seed: Mapping[str, Any] | None) -> None:
        self._agent = agent
        self._first: Any = (list(files), seed)
        self._conversation: Conversation | None = None

    async def say(self, question: str) -> Outcome[Any]:
        """Says something and waits for the outcome. Cancelling ends the run, not the conversation."""
        return await _last_async(self.stream(question), Any)

    async def stream(self, question: str) -> AsyncIterator[AgentEvent]:
        """Says something and gives the events as they come."""
        if self._conversation is None:
            files, seed = self._first
            run = _Run.of_question(question, None, files, seed)
            self._conversation = self._agent._conversation(run)
            fields = self._agent._fields(run, self._conversation, keep=True)
        else:
            fields = {"op": "say", "question": question}
        conversation = self._conversation
        is_over = False
        try:
            async for event in _events_async(conversation, fields):
                is_over = event.kind == "outcome"
                yield event
        finally:
            if not is_over and conversation.core.is_open:
                conversation.core.connection.send_later({"op": "cancel", "session": conversation.core.name})

    async def close(self) -> None:
        """Ends the conversation and its session."""
        if self._conversation is not None:
            self._conversation.close()

    async def __aenter__(self) -> AsyncChat:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self) -> None:
        if getattr(self, "_conversation", None) is not None:
            self._conversation.close()  # type: ignore[union-attr]


class _Run:
    """What is asked: the fields of the request, the type of the answer, and tools that only this run has."""

    def __init__(self, fields: Line, kind: Any, tools: Mapping[str, Any] | None = None) -> None:
        self.fields = fields
        self.kind = Any if kind is None else kind
        self.tools: dict[str, Any] = dict(tools or {})

    @classmethod
    def of_question(
        cls, question: str, returns: Any, files: Iterable[str | os.PathLike[str]], seed: Mapping[str, Any] | None
    ) -> _Run:
        if not question.strip():
            raise Refused("the question is empty", "invalid")
        fields: Line = {"op": "ask", "question": question}
        if returns is not None:
            fields["schema"] = schema_of(returns)
        paths = [os.path.abspath(file) for file in files]  # noqa: PTH100
        if paths:
            fields["files"] = paths
        variables = plain_variables(seed or {})
        if variables:
            fields["seed"] = variables
        return cls(fields, returns)

    @classmethod
    def of_template(cls, text: str, arguments: Mapping[str, Any], returns: Any, tools: Mapping[str, Any]) -> _Run:
        return cls({"op": "template", "template": text, "arguments": plain_variables(arguments)}, returns, tools)


def plain_variables(given: Mapping[str, Any]) -> dict[str, Any]:
    """Variables of a run. Raises `WrongValue` for what JSON cannot say exactly."""
    for name, value in given.items():
        if isinstance(value, bytes) or name not in seeds_from({name: value}).variables:
            raise WrongValue(
                f"{name}: an agent's variables are JSON values (texts, numbers, lists, dicts), got {value!r:.80}", "value"
            )
    return dict(given)


def _events(conversation: Conversation, fields: Line) -> Iterator[AgentEvent]:
    inbox: SimpleQueue[Line] = SimpleQueue()
    conversation.ask(fields, inbox.put, None)
    is_over = False
    while not is_over:
        line = inbox.get()
        is_over = outcome_of(line) is not None
        yield _event_from(line)


async def _events_async(conversation: Conversation, fields: Line) -> AsyncIterator[AgentEvent]:
    loop = asyncio.get_running_loop()
    inbox: asyncio.Queue[Line] = asyncio.Queue()

    def deliver(line: Line) -> None:
        try:
            loop.call_soon_threadsafe(inbox.put_nowait, line)
        except RuntimeError:
            pass  # the loop is closed: no task waits

    await asyncio.to_thread(conversation.connect)
    conversation.ask(fields, deliver, loop)
    is_over = False
    while not is_over:
        line = await inbox.get()
        is_over = outcome_of(line) is not None
        yield _event_from(line)


def _last(events: Iterator[AgentEvent], kind: Any) -> Outcome[Any]:
    last: dict[str, Any] = {}
    for event in events:
        last = event.data
    return Outcome(last["outcome"], kind)


async def _last_async(events: AsyncIterator[AgentEvent], kind: Any) -> Outcome[Any]:
    last: dict[str, Any] = {}
    async for event in events:
        last = event.data
    return Outcome(last["outcome"], kind)


def _event_from(line: Line) -> AgentEvent:
    data = {name: value for name, value in line.items() if name not in ("id", "session", "event")}
    return AgentEvent(str(line["event"]), data)
