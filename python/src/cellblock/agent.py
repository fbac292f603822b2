"""A model that computes its answers: it writes code, the code runs in a sealed session, and the answer comes back checked."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

from ._seeds import seeds_from
from ._types import convert, schema_of
from .errors import AgentFailed, BinaryError, Refused, Unsupported, WrongValue
from .host import Host, Remote
from .options import EnvLike, LimitsLike, NetworkLike, limits_json, network_from

T = TypeVar("T")
Approval = Literal["never", "effects", "code", "tools", "all"]
Format = Literal["tools", "json", "xml", "markdown", "next_step"]

_MAX_ARGUMENT_BYTES = 100_000
_PATIENCE_SECONDS = 10.0
_LIMIT_OPTIONS = {
    "wall": "--timeout",
    "memory": "--memory",
    "processes": "--processes",
    "disk": "--disk",
    "open_files": "--open-files",
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
    """The options of `Agent` and `AsyncAgent`, and the command that they run."""

    def __init__(
        self,
        model: str | None = None,
        *,
        base_url: str | None = None,
        key_variable: str | None = None,
        format: Format | None = None,
        tools: Iterable[Any] = (),
        approve: Approval | None = None,
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
        config: str | os.PathLike[str] | None = None,
        host: Host | Remote | None = None,
    ) -> None:
        if list(tools) or callable(approve):
            raise Unsupported(
                "tools and approval functions of an agent are not in this version: a run cannot call back into your process yet. "
                "Sessions can: Session(tools=..., approve=...)",
                "unsupported",
            )
        if isinstance(host, Remote):
            host._connect()
        self._host = host if isinstance(host, Host) else Host()
        rules = network_from(network) if network is not None else None
        given: dict[str, Any] = {
            "--model": model,
            "--base-url": base_url,
            "--key-variable": key_variable,
            "--format": format,
            "--approve": approve,
            "--max-steps": max_steps,
            "--max-time": max_time,
            "--max-tokens": max_tokens,
            "--max-cost": max_cost,
            "--isolation": isolation,
            "--workspace": workspace,
            "--config": config,
            "--env": env if env is None or isinstance(env, str) else env.word(),
            "--python": self._host._python,
        }
        options = [part for name, value in given.items() if value is not None for part in (name, str(value))]
        for name, value in (limits_json(limits) if limits is not None else {}).items():
            if name not in _LIMIT_OPTIONS:
                raise Refused(f"limits: {name} cannot be set for an agent; it has {', '.join(_LIMIT_OPTIONS)}", "invalid")
            options += [_LIMIT_OPTIONS[name], str(value)]
        for module in imports:
            options += ["--import", module]
        for rule in rules.rules if rules else ():
            options += ["--allow-net", rule]
        for rule in rules.credentials if rules else ():
            options += ["--credential", rule]
        self._options = options + (["--stdlib"] if self._host._packages == "none" else [])

    def _command(self, run: _Run) -> list[str]:
        return [self._host.binary(), "ask", "--json", *run.arguments, *self._options]


class Agent(_AgentBase):
    """A model with a sealed Python: `Agent(model="gpt-4o-mini").ask("How many primes are below a million?").answer`.

    Model, address and key come from the arguments, else from the variables and the configuration that `cellblock ask` reads.
    `max_steps`, `max_time`, `max_tokens` and `max_cost` bound a run. The other options are those of a session.
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
        are variables for the code. A run without an answer is an outcome too: look at `ok`, or call `check()`.
        """
        with _Run.of_question(question, returns, files, seed) as run:
            return self._finish(run)

    def stream(
        self, question: str, *, files: Iterable[str | os.PathLike[str]] = (), seed: Mapping[str, Any] | None = None
    ) -> Iterator[AgentEvent]:
        """Asks a question and gives the events as they come. The last one is `outcome`. Dropping the iterator cancels the run."""
        with _Run.of_question(question, None, files, seed) as run:
            yield from self._events(run)

    def _finish(self, run: _Run) -> Outcome[Any]:
        last = {}
        for event in self._events(run):
            last = event.data
        return Outcome(last["outcome"], run.kind)

    def _events(self, run: _Run) -> Iterator[AgentEvent]:
        child = subprocess.Popen(
            self._command(run),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for this process, which ends the run in order
        )
        assert child.stdout is not None and child.stderr is not None
        has_outcome = False
        try:
            for line in child.stdout:
                event = _event_from(line)
                has_outcome = has_outcome or event.kind == "outcome"
                yield event
            said = child.stderr.read()
            child.wait()
        finally:
            _end(child)
        if not has_outcome:
            raise _failure(child.returncode, said)


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
        with _Run.of_question(question, returns, files, seed) as run:
            return await self._finish(run)

    async def stream(
        self, question: str, *, files: Iterable[str | os.PathLike[str]] = (), seed: Mapping[str, Any] | None = None
    ) -> AsyncIterator[AgentEvent]:
        """Asks a question and gives the events as they come. The last one is `outcome`."""
        with _Run.of_question(question, None, files, seed) as run:
            async for event in self._events(run):
                yield event

    async def _finish(self, run: _Run) -> Outcome[Any]:
        last = {}
        async for event in self._events(run):
            last = event.data
        return Outcome(last["outcome"], run.kind)

    async def _events(self, run: _Run) -> AsyncIterator[AgentEvent]:
        command = await asyncio.to_thread(self._command, run)
        child = await asyncio.create_subprocess_exec(
            *command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            limit=64 << 20,
        )
        assert child.stdout is not None and child.stderr is not None
        has_outcome = False
        try:
            async for line in child.stdout:
                event = _event_from(line)
                has_outcome = has_outcome or event.kind == "outcome"
                yield event
            said = await child.stderr.read()
            await child.wait()
        finally:
            if child.returncode is None:
                child.send_signal(signal.SIGTERM)
        if not has_outcome:
            raise _failure(child.returncode or 0, said)


class _Run:
    """One run: the arguments of its command, and the files that it reads, which live as long as it."""

    def __init__(self, kind: Any) -> None:
        self.arguments: list[str] = []
        self.kind = Any if kind is None else kind
        self._directory = tempfile.TemporaryDirectory(prefix="cellblock-")

    @classmethod
    def of_question(
        cls, question: str, returns: Any, files: Iterable[str | os.PathLike[str]], seed: Mapping[str, Any] | None
    ) -> _Run:
        if not question.strip():
            raise Refused("the question is empty", "invalid")
        run = cls(returns)
        if returns is not None:
            run.arguments += ["--schema", run.write("schema.json", json.dumps(schema_of(returns)))]
        for file in files:
            run.arguments += ["--file", os.fspath(file)]
        for name, value in (seed or {}).items():
            run.arguments += ["--var", json_argument(name, value)]
        run.question(question)
        return run

    @classmethod
    def of_template(cls, text: str, arguments: Mapping[str, Any], returns: Any) -> _Run:
        run = cls(returns)
        run.arguments += ["--template", run.write("template.md", text)]
        for name, value in arguments.items():
            run.arguments += ["--arg", json_argument(name, value)]
        return run

    def question(self, question: str) -> None:
        if len(question.encode("utf-8", "replace")) > _MAX_ARGUMENT_BYTES:
            raise Refused(f"the question is longer than {_MAX_ARGUMENT_BYTES} bytes; put what is long into a file", "invalid")
        # A space in front keeps a question that begins with `-` from being read as an option or as standard input.
        self.arguments.append(f" {question}" if question.startswith("-") else question)

    def write(self, name: str, text: str) -> str:
        path = Path(self._directory.name) / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.cleanup()


def json_argument(name: str, value: Any) -> str:
    """`name=JSON` for the command line. Raises `WrongValue` for what JSON cannot say exactly, or what is too long."""
    seeds = seeds_from({name: value})
    if name not in seeds.variables or isinstance(value, bytes):
        raise WrongValue(
            f"{name}: an agent's variables are JSON values (texts, numbers, lists, dicts), got {value!r:.80}", "value"
        )
    text = f"{name}={json.dumps(value)}"
    if len(text) > _MAX_ARGUMENT_BYTES:
        raise WrongValue(f"{name} is longer than {_MAX_ARGUMENT_BYTES} bytes as JSON; put it into a file", "value")
    return text


def _event_from(line: bytes) -> AgentEvent:
    event = json.loads(line)
    kind = str(event.pop("event", "outcome" if "outcome" in event else "note"))
    return AgentEvent("outcome" if "outcome" in event else kind, event)


def _failure(status: int, said: bytes) -> Exception:
    words = said.decode("utf-8", "replace").strip().removeprefix("error: ") or f"it ended with status {status}"
    return Refused(words, "agent") if status == 2 else BinaryError(f"the run could not be made: {words}", "agent")


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends a run whose caller does not wait any more; SIGTERM lets it write down what was reached."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
