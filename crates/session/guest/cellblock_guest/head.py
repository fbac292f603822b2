"""The loop of a live session: read a request, do it, answer."""

from __future__ import annotations

import builtins
import os
from _socket import socketpair
from os import close, read, write

from . import BUILTINS as __builtins__
from . import (
    checkpoints,
    comms,
    denials,
    descriptors,
    entropy,
    errors,
    forks,
    hooks,
    inspection,
    outputs,
    pairs,
    places,
    plotting,
    prefork_state,
    seeds,
    surroundings,
)
from .bridge import Bridge
from .channel import LOST, Channel
from .compute import Compute
from .display import Display
from .environment import CellEnvironment
from .execute import Interpreter, outcome
from .native import ThreadInTheWay
from .prompts import Prompts
from .streams import Streams
from .watcher import Watcher
from .wire import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from .prefork_state import PreForkState
    from .wire import Frame

_exit = os._exit
# An expression, a binding, and what is done about a variable that was added, changed and removed.
_WARM_UP = ["1+1", "x = 1", "x = 'text'", "del x"]


class Head:
    """A live session: its interpreter, and what is around it.

    It is made in the zygote, where that costs nobody anything, and becomes alive in a fork of it.
    """

    def __init__(self) -> None:
        self.channel = Channel(-1)
        prompts = Prompts(self.channel)
        self._streams = prompts.streams = Streams(prompts.ask, self._log)
        self._display = Display(self._emit)
        self._interpreter = Interpreter(self._streams, self._display, self.channel.is_interrupted)
        self._bridge = Bridge(self.channel, self._streams, vars(builtins))
        comms.connect(self._emit)
        self._compute = Compute(self._interpreter.namespace)
        self._imports: list[str] = []
        self._prefork_state: PreForkState | None = None  # in a copy that was woken, until the host has put its files back
        self._request: Frame | None = None
        self._reply: bytes | None = None
        self._sent: list[int] = []
        self._begun = False
        vars(builtins).update(
            display=self._display.function,
            clear_output=self._display.clear,
            input=prompts.function(),
            read_output=outputs.reader(self.channel),
        )
        surroundings.arrange(self._streams.flush)
        hooks.after_import("matplotlib.pyplot", plotting.configure)
        denials.install()
        entropy.notice_seeds()
        pairs.notice()
        os.register_at_fork(after_in_child=self._become_fork)

    def live(self, channel_fd: int) -> NoReturn:
        """Serve the host over `channel_fd` for as long as this process lives."""
        try:
            self.resume(channel_fd)
            self._streams.share()
            descriptors.note_outputs()
            places.begin(os.getcwd())
            prefork_state.begin(checkpoints.descriptors())
            self._interpreter.begin(os.getcwd())
            self._greet()
            self._serve()
        finally:
            _exit(LOST)

    def warm_up(self) -> None:
        """Run through some cells, so that every session finds the interpreter's caches filled and its pages shared."""
        near, far = [end.detach() for end in socketpair()]
        self.resume(near)
        for code in _WARM_UP * 10:
            write(far, encode({"op": "run", "cell": -1, "code": code}))
            self._step()
            read(far, 65536)
        self._interpreter.clear()
        self._interpreter.forget("<cell -1>")
        self.channel.adopt(-1)
        close(near)
        close(far)

    def use_ipython(self, shell: str) -> None:
        """Make the sessions of this zygote notebooks, where IPython is installed."""
        self._interpreter.use_ipython(shell)

    def get_ready(self) -> None:
        """In the process that will live, ahead of time."""
        self.resume(-1)
        self.rehearse()

    def _serve(self) -> NoReturn:
        while True:
            # A signal handler that a cell left behind may raise anywhere in here. The attributes say where to go on.
            try:
                while True:
                    self._step()
            except BaseException:
                pass

    def _greet(self, standby: int = 0, not_copied: Sequence[str] = ()) -> None:
        """Say that this process serves from now on, what stands by for it, and what a fork does not have of its parent."""
        self.channel.send({"t": "ready", "standby": standby, "not_copied": list(not_copied)})

    def _step(self) -> None:
        if self._request is None:
            self._begun = False
            self._request = self.channel.next_request()
        if self._request["op"] == "arm":
            request, self._request = self._request, None
            self._arm(request)
            return
        if self._request["op"] == "fork":
            request, self._request = self._request, None
            self._fork(request)
            return
        if self._reply is None:
            self._reply = (
                _sorry(self._request, "interrupted by a signal handler") if self._begun else self._perform(self._request)
            )
        self.channel.transmit(self._reply, self._sent)
        self._request = self._reply = None
        self._sent = []

    def _perform(self, request: Frame) -> bytes:
        self._begun = True
        try:
            if request["op"] == "run":
                return encode(self._run(request))
            operation = _OPERATIONS.get(request["op"])
            if operation is None:
                raise ValueError(f"unknown request {request['op']!r}")
            return encode({"t": "answer", "seq": request.get("seq"), **operation(self, request)})
        except BaseException as error:
            if self._interpreter.forked:
                _exit(LOST)
            return _sorry(request, _reason(error))

    def _run(self, request: Frame) -> Frame:
        self._display.is_silent = bool(request.get("silent"))
        try:
            with CellEnvironment(request.get("env") or {}):
                return self._run_cell(request)
        finally:
            self._display.is_silent = False

    def _run_cell(self, request: Frame) -> Frame:
        cell = request["cell"], request["code"], request.get("script"), bool(request.get("keep_value")), request.get("count")
        if request.get("watched"):
            with Watcher(self.channel, self._answer_meanwhile):
                return self._interpreter.run(*cell)
        self.channel.glance = self._answer_meanwhile
        try:
            return self._interpreter.run(*cell)
        finally:
            self.channel.glance = None

    def _answer_meanwhile(self, request: Frame) -> bytes:
        """In the middle of a cell: on the second thread, or while the code waits for the host."""
        try:
            answer = _LOOKS[request["op"]](self, request)
            return encode({"t": "answer", "seq": request.get("seq"), **answer})
        except BaseException as error:
            return _sorry(request, _reason(error))

    def _arm(self, request: Frame) -> None:
        """Make a standby. In it, this returns when it is woken: it is the head then."""
        with self.channel.alone():
            is_woken = self._arm_alone(request)
        if not is_woken and not request.get("cell_waits"):
            self.rehearse()

    def _arm_alone(self, request: Frame) -> bool:
        """Whether this process is the standby, which was woken."""
        answer: Frame = {"t": "answer", "seq": request.get("seq")}
        next_channel = self.channel.take_enclosed()
        try:
            reason = self._stand_by(next_channel, answer)
        except checkpoints.Woken as woken:
            self._prefork_state = woken.prefork_state
            if woken.standby:
                self._streams.hold_lines()
            self.resume(next_channel)
            self._greet(woken.standby)
            return True
        except Exception as error:
            reason = checkpoints.why_not_copied(error)
        close(next_channel)
        if reason is not None:
            self.channel.send({**answer, "unavailable": reason})
        return False

    def _stand_by(self, next_channel: int, answer: Frame) -> str | None:
        """Make it and answer, or say why not."""
        self._streams.flush()
        opened = checkpoints.descriptors()
        # Before the fork: after it, every page that this touches would have to be copied.
        about = {**checkpoints.size(), "children": checkpoints.children()}
        own_memory = self._streams.shared_memory
        reason = checkpoints.make(self.channel.fd, next_channel, opened, {**answer, **about}, own_memory)
        if reason is None:
            self._streams.hold_lines()
        return reason

    def _fork(self, request: Frame) -> None:
        """Make a copy that is the head of another session. In it, this returns when it is settled there."""
        with self.channel.alone():
            self._fork_alone(request)

    def _fork_alone(self, request: Frame) -> None:
        answer: Frame = {"t": "answer", "seq": request.get("seq")}
        try:
            self._streams.flush()
            reason = checkpoints.fork_obstacle(checkpoints.descriptors(), (self.channel.fd,))
            if reason is None:
                forks.make(self.channel.fd, self._streams.shared_memory)
        except forks.Arrived as arrived:
            self.resume(arrived.descriptor)
            self._streams.share()
            descriptors.note_outputs()
            self._greet(not_copied=arrived.not_copied)
            return
        except ThreadInTheWay as error:
            reason = checkpoints.why_not_stopped(error)
        except Exception as error:
            reason = checkpoints.why_not_copied(error)
        self.channel.send(answer if reason is None else {**answer, "unavailable": reason})

    def resume(self, channel_fd: int) -> None:
        """Become the head in a fork of one: from here on this process serves `channel_fd`."""
        self._interpreter.forked = False
        self.channel.adopt(channel_fd)

    def rehearse(self) -> None:
        """Run through a cell without a trace, so that the memory pages it needs are this process's own."""
        encode(self._interpreter.rehearse())

    def _emit(self, frame: Frame) -> None:
        """Send something in the middle of a cell, after what was printed before it."""
        self._streams.hand_over()
        self.channel.send(frame)

    def _log(self, text: str) -> None:
        """What a thread prints that an earlier cell left running: it belongs to no cell."""
        self.channel.send({"t": "log", "text": text})

    def _become_fork(self) -> None:
        self._interpreter.forked = True
        self._streams.keep_apart()
        self.channel.disown()

    def _seed(self, request: Frame) -> Frame:
        if (number := request.get("random")) is not None:
            entropy.fix(number)
        seeds.plant(self._interpreter.namespace, request.get("variables") or {})
        os.environ.update(request.get("environment") or {})
        imports = request.get("imports") or []
        seeds.bind_imports(self._interpreter.namespace, imports)
        self._imports += imports
        self._interpreter.variables.forget_changes()
        return {}

    def _vars(self, request: Frame) -> Frame:
        return {"vars": self._interpreter.variables.listing()}

    def _inspect(self, request: Frame) -> Frame:
        answer = inspection.look(self._interpreter.namespace, request["name"])
        self._streams.flush()
        return answer

    def _complete(self, request: Frame) -> Frame:
        from . import completion

        code, place = request["code"], request["pos"]
        notebook = self._interpreter.notebook
        if notebook is not None and (magics := completion.magics(notebook, code, place)):
            return {"matches": magics}
        return completion.complete(self._interpreter.namespace, code, place)

    def _inspect_at(self, request: Frame) -> Frame:
        from . import pointed

        return pointed.describe(self._interpreter.namespace, request["code"], request["pos"], request.get("detail", 0))

    def _is_complete(self, request: Frame) -> Frame:
        from . import completeness

        notebook = self._interpreter.notebook
        if notebook is None:
            return completeness.judge(request["code"])
        status, indent = notebook.is_complete(request["code"])
        return {"status": status, "indent": " " * (indent or 0)}

    def _evaluate(self, request: Frame) -> Frame:
        return self._compute.answer(request["code"], request.get("seconds", 2.0), request.get("memory", 256 << 20))

    def _tools(self, request: Frame) -> Frame:
        self._bridge.offer(request["tools"])
        return {}

    def _settle(self, request: Frame) -> Frame:
        """The files are as they were at the checkpoint: put right what leads to them, and say what could not be."""
        # What the head that died had printed of an incomplete line.
        self._streams.flush()
        prefork_state, self._prefork_state = self._prefork_state, None
        lost, named = ([], {}) if prefork_state is None else prefork_state.settle(request.get("named") or {})
        return {"lost": lost, "named": named}

    def _repeat(self, request: Frame) -> Frame:
        """What ran after the checkpoint that this process was, and can be run again."""
        return {"repeated": self._interpreter.repeat(request["cells"])}

    def _reset(self, request: Frame) -> Frame:
        self._interpreter.clear()
        self._compute.forget()
        seeds.bind_imports(self._interpreter.namespace, self._imports)
        self._interpreter.variables.forget_changes()
        return {}


# What changes nothing, and may be done beside a cell.
_LOOKS = {
    "vars": Head._vars,
    "inspect": Head._inspect,
    "complete": Head._complete,
    "inspect_at": Head._inspect_at,
    "is_complete": Head._is_complete,
    "compute": Head._evaluate,
}
_OPERATIONS = {
    **_LOOKS,
    "seed": Head._seed,
    "tools": Head._tools,
    "reset": Head._reset,
    "settle": Head._settle,
    "repeat": Head._repeat,
}


def _sorry(request: Frame, reason: str) -> bytes:
    """The answer to a request that could not be done, or whose result could not be sent."""
    if request["op"] != "run":
        return encode({"t": "answer", "seq": request.get("seq"), "error": reason})
    return encode({**outcome(request["cell"]), "ok": False, "error": errors.brief(RuntimeError(reason))})


def _reason(error: BaseException) -> str:
    text = str(error)
    return text if isinstance(error, (ValueError, LookupError)) and text else f"{type(error).__name__}: {text}"
