"""A model that computes its answers: it writes code, the code runs in a sealed session, and the answer comes back checked."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from ._agent_runs import MODES, Conversation, asks_client, events, events_async, last, last_async, policy_of
from ._connection import Line
from ._core import Core
from ._seeds import seeds_from
from ._types import schema_of
from .chats import AsyncChat, Chat, ChatStart
from .errors import Refused, Unsupported, WrongValue
from .host import Host, Remote
from .options import EnvLike, LimitsLike, NetworkLike, limits_json, network_from
from .outcomes import AgentEvent, Outcome
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
        core = Core(self._host, {**self._tools, **run.tools}, policy_of(self._approve), None, None)
        return Conversation(core, self._options.get("key_variable"))

    def _fields(self, run: _Run, conversation: Conversation, *, keep: bool = False) -> Line:
        fields: Line = {**run.fields, "options": self._options}
        if conversation.core.tools:
            fields["tools"] = [{**one.spec(), "changes": one.changes} for one in conversation.core.tools.values()]
        if asks_client(self._approve):
            fields["approvals"] = True
        if keep:
            fields["keep"] = True
        return fields

    def _chat_start(self, files: Iterable[str | os.PathLike[str]], seed: Mapping[str, Any] | None) -> ChatStart:
        """Makes the conversation of a chat and its first request, when the first question is known."""
        paths, variables = list(files), dict(seed or {})

        def start(question: str) -> tuple[Conversation, Line]:
            run = _Run.of_question(question, None, paths, variables)
            conversation = self._conversation(run)
            return conversation, self._fields(run, conversation, keep=True)

        return start


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
            yield from events(conversation, self._fields(run, conversation))
        finally:
            conversation.close()

    def chat(self, *, files: Iterable[str | os.PathLike[str]] = (), seed: Mapping[str, Any] | None = None) -> Chat:
        """A conversation: the model remembers what was said, and its session keeps its variables."""
        return Chat(self._chat_start(files, seed))

    def _finish(self, run: _Run) -> Outcome[Any]:
        conversation = self._conversation(run)
        try:
            return last(events(conversation, self._fields(run, conversation)), run.kind)
        finally:
            conversation.close()


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
            async for event in events_async(conversation, self._fields(run, conversation)):
                yield event
        finally:
            conversation.close()

    def chat(self, *, files: Iterable[str | os.PathLike[str]] = (), seed: Mapping[str, Any] | None = None) -> AsyncChat:
        """A conversation: the model remembers what was said, and its session keeps its variables."""
        return AsyncChat(self._chat_start(files, seed))

    async def _finish(self, run: _Run) -> Outcome[Any]:
        conversation = self._conversation(run)
        try:
            return await last_async(events_async(conversation, self._fields(run, conversation)), run.kind)
        finally:
            conversation.close()


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
