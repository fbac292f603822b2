"""Answering the calls of a running cell: tools with their approval and time limit, and `input()`."""

from __future__ import annotations

import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from ._connection import Line
from ._workers import deadlines, workers
from .approval import Approve, Call, Policy, Refusal, decision_from, rule_for
from .errors import WrongValue
from .tools import Tool, plain_result

if TYPE_CHECKING:
    import asyncio

    from ._core import Core

_MAX_MESSAGE = 10_000
# The sessions and chats that wait for the tool, or for the decision, that runs here.
_waiting_for_this: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar("waiting_for_this", default=frozenset())


class PendingCall:
    """A call that waits for its answer. The first answer counts, later ones are dropped."""

    def __init__(self, core: Core, line: Line) -> None:
        self._connection = core.connection
        self._session = core.name
        self.call: str = line["call"]
        self._operation = "tool_result" if line["event"] == "tool_call" else "input"
        self._once = threading.Lock()

    def answer(self, value: Any) -> None:
        """The call gave this."""
        field = "result" if self._operation == "tool_result" else "text"
        self._send({field: value})

    def refuse(self, message: str) -> None:
        """The call failed: the code gets a `ToolError`, or an `EOFError` from `input()`."""
        self._send({"error": message[:_MAX_MESSAGE] or "the tool failed and did not say why"})

    def _send(self, outcome: Line) -> None:
        if not self._once.acquire(blocking=False):
            return
        deadlines.withdraw(self)
        fields = {"op": self._operation, "session": self._session, "call": self.call}
        try:
            self._connection.send({**fields, **outcome})
        except (ValueError, TypeError, RecursionError) as error:
            self._connection.send({**fields, "error": f"what the tool returned cannot be sent: {error}"[:_MAX_MESSAGE]})


class ToolRun:
    """One call of a tool, from its approval to its answer."""

    def __init__(self, core: Core, line: Line, loop: asyncio.AbstractEventLoop | None, context: contextvars.Context) -> None:
        self._core = core
        self._pending = PendingCall(core, line)
        self._name: str = line["name"]
        self._arguments: dict[str, Any] = line["arguments"]
        self._loop = loop
        self._context = context

    def start(self) -> None:
        """Begins on another thread or loop, and returns at once."""
        tool = self._core.tools.get(self._name)
        if tool is None:
            # The code may call what it likes; on the reading thread nothing is written.
            workers.run(lambda: self._pending.refuse(f"there is no tool `{self._name}`"))
            return
        if not (tool.is_async or _is_async_policy(self._core.approve)):
            workers.run(lambda: self._context.run(self._attend, tool))
        elif self._loop is None:
            workers.run_coroutine(self._attend_async(tool))
        else:
            loop = self._loop
            try:
                loop.call_soon_threadsafe(lambda: _keep(loop.create_task(self._attend_async(tool))))
            except RuntimeError:
                workers.run(lambda: self._pending.refuse("the event loop of the session is closed"))

    def _attend(self, tool: Tool[..., Any]) -> None:
        note_waiting(self._core.name)
        with _Answering(self._pending):
            arguments = tool.arguments_from(self._arguments)
            call = Call(tool.name, dict(self._arguments), tool.changes)
            ask = rule_for(self._core.approve, call)
            if ask is not None:
                decision = decision_from(_finished(_asked(ask, call)))
                if not self._go_on(decision):
                    return
                arguments = tool.arguments_from({**self._arguments, **decision.arguments})
            self._limit(tool)
            self._pending.answer(plain_result(tool.function(**arguments)))

    async def _attend_async(self, tool: Tool[..., Any]) -> None:
        import asyncio

        note_waiting(self._core.name)
        with _Answering(self._pending):
            arguments = tool.arguments_from(self._arguments)
            call = Call(tool.name, dict(self._arguments), tool.changes)
            ask = rule_for(self._core.approve, call)
            if ask is not None:
                given = await _in_worker(lambda: _asked(ask, call)) if not inspect.iscoroutinefunction(ask) else ask(call)
                decision = decision_from(await given if inspect.isawaitable(given) else given)
                if not self._go_on(decision):
                    return
                arguments = tool.arguments_from({**self._arguments, **decision.arguments})
            if tool.is_async:
                value = await asyncio.wait_for(tool.function(**arguments), tool.timeout)
            else:
                self._limit(tool)
                value = await _in_worker(lambda: self._context.run(self._call, tool, arguments))
            self._pending.answer(plain_result(value))

    def _call(self, tool: Tool[..., Any], arguments: dict[str, Any]) -> Any:
        note_waiting(self._core.name)
        return tool.function(**arguments)

    def _go_on(self, decision: Approve) -> bool:
        if decision.kind == "respond":
            self._pending.answer(decision.text)
        elif decision.kind == "reject":
            self._pending.refuse(decision.text)
        return decision.kind in ("accept", "edit")

    def _limit(self, tool: Tool[..., Any]) -> None:
        if tool.timeout is not None:
            late = f"`{tool.name}` did not answer within {tool.timeout:g} s"
            deadlines.add(self._pending, tool.timeout, lambda: self._pending.refuse(late))


def note_waiting(name: str) -> None:
    """In the context of a call: the session or chat of this name goes on when the call is answered."""
    _waiting_for_this.set(_waiting_for_this.get() | {name})


def is_waiting_for_this(name: str) -> bool:
    """Whether the session or chat of this name waits for the call that runs here."""
    return name in _waiting_for_this.get()


class _Answering:
    """Whatever ends the block with an exception becomes the answer of the call: no call is left waiting."""

    def __init__(self, pending: PendingCall) -> None:
        self._pending = pending

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> bool:
        if error is not None:
            self._pending.refuse(_words(error))
        return True


def answer_input(core: Core, line: Line) -> None:
    """Answers `input()` by the session's function, on this thread. An interrupt goes through, after the call was refused."""
    pending = PendingCall(core, line)
    function = core.input
    if function is None:
        pending.refuse(
            "no person can answer input() here: give the session a function, such as `Session(input=input)`, "
            "or pass the value as a variable"
        )
        return
    try:
        text = _finished(function(line["prompt"]))
    except Exception as error:
        pending.refuse(_words(error))
    except BaseException:
        pending.refuse("interrupted")
        raise
    else:
        if isinstance(text, str):
            pending.answer(text)
        else:
            pending.refuse(f"the session's input function gave {text!r}, which is no text")


def _is_async_policy(policy: Policy) -> bool:
    if policy is None:
        return False
    rules = policy.values() if isinstance(policy, Mapping) else [policy]
    return any(inspect.iscoroutinefunction(rule) for rule in rules)


def decide_call(policy: Policy, name: str, arguments: dict[str, Any], *, changes: bool) -> Approve:
    """The decision about a call that the host asks about. Whatever goes wrong refuses the call. Not for event loops."""
    try:
        call = Call(name, dict(arguments), changes)
        ask = rule_for(policy, call)
        return Approve.accept() if ask is None else decision_from(_finished(_asked(ask, call)))
    except BaseException as error:
        return Approve.reject(_words(error)[:_MAX_MESSAGE])


def _asked(ask: Callable[[Call], Any], call: Call) -> Any:
    try:
        return ask(call)
    except Exception as error:
        raise Refusal(f"`{call.name}` was not run, for its approval failed: {_words(error)}") from error


def _words(error: BaseException) -> str:
    if isinstance(error, (Refusal, WrongValue)):
        return str(error)
    if type(error).__name__ in ("TimeoutError", "CancelledError") and not str(error):
        return "the tool did not answer in time"
    said = str(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _finished(value: Any) -> Any:
    """The value, or what comes of it if it is awaitable. Only for threads without an event loop."""
    if not inspect.isawaitable(value):
        return value
    import asyncio

    async def wait(value: Awaitable[Any]) -> Any:
        return await value

    return asyncio.run(wait(value))


async def _in_worker(function: Callable[[], Any]) -> Any:
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def set_outcome(value: Any, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def job() -> None:
        value, problem = None, None
        try:
            value = function()
        except BaseException as error:
            problem = error if isinstance(error, Exception) else RuntimeError(_words(error))
        try:
            loop.call_soon_threadsafe(set_outcome, value, problem)
        except RuntimeError:
            pass  # the loop is closed: no task waits

    workers.run(job)
    return await future


_tasks: set[Any] = set()


def _keep(task: Any) -> None:
    # A loop holds its tasks weakly: a task without another reference may vanish in the middle.
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
