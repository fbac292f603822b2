"""The loop of a live session: read a request, do it, answer."""

from __future__ import annotations

import builtins
import os
import sys

from . import BUILTINS as __builtins__
from . import checkpoints, denials, errors, hooks, inspection, outputs, plotting, seeds, surroundings
from .bridge import Bridge
from .channel import LOST, Channel
from .compute import Compute
from .display import Display
from .execute import Interpreter, outcome
from .prompts import Prompts
from .streams import Streams
from .wire import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from .wire import Frame

_exit = os._exit


def main(channel_fd: int) -> NoReturn:
    """Serve the host over `channel_fd` for as long as this process lives."""
    try:
        Head(channel_fd).serve()
    finally:
        _exit(LOST)


class Head:
    """A live session: its interpreter, and what is around it."""

    def __init__(self, channel_fd: int) -> None:
        self.channel = Channel(channel_fd)
        prompts = Prompts(self.channel)
        self._streams = prompts.streams = Streams(prompts.ask, self._log)
        self._display = Display(self._emit)
        self._interpreter = Interpreter(self._streams, self._display, os.getcwd())
        self._bridge = Bridge(self.channel, self._streams, vars(builtins))
        self._compute = Compute(self._interpreter.namespace)
        self._imports: list[str] = []
        self._request: Frame | None = None
        self._reply: bytes | None = None
        self._sent: list[int] = []
        self._begun = False
        vars(builtins).update(
            display=self._display.function, input=prompts.function(), read_output=outputs.reader(self.channel)
        )
        surroundings.arrange(self._streams.flush)
        hooks.after_import("matplotlib.pyplot", plotting.configure)
        denials.install()
        os.register_at_fork(after_in_child=self._become_fork)

    def serve(self) -> NoReturn:
        self._greet()
        while True:
            # A signal handler that a cell left behind may raise anywhere in here. The attributes say where to go on.
            try:
                while True:
                    self._step()
            except BaseException:
                pass

    def _greet(self) -> None:
        version = "{}.{}.{}".format(*sys.version_info[:3])
        self.channel.send({"t": "ready", "python": version, "pid": os.getpid()})

    def _step(self) -> None:
        if self._request is None:
            self._begun = False
            self._request = self.channel.next_request()
        if self._request["op"] == "arm":
            request, self._request = self._request, None
            self._arm(request)
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
                self.channel.glance = self._glance
                try:
                    done = self._interpreter.run(request["cell"], request["code"], request.get("display_limit"))
                finally:
                    self.channel.glance = None
                return encode(done)
            operation = _OPERATIONS.get(request["op"])
            if operation is None:
                raise ValueError(f"unknown request {request['op']!r}")
            return encode({"t": "answer", "seq": request.get("seq"), **operation(self, request)})
        except BaseException as error:
            if self._interpreter.forked:
                _exit(LOST)
            return _sorry(request, _reason(error))

    def _glance(self, request: Frame) -> bytes:
        """A look at the state in the middle of a cell, while its code waits for the host."""
        try:
            return encode({"t": "answer", "seq": request.get("seq"), **_OPERATIONS[request["op"]](self, request)})
        except BaseException as error:
            return _sorry(request, _reason(error))

    def _arm(self, request: Frame) -> None:
        """Make a standby. In it, this returns when it is woken: it is the head then."""
        answer: Frame = {"t": "answer", "seq": request.get("seq")}
        try:
            self._streams.flush()
            reason = checkpoints.obstacle()
            if reason is not None:
                self.channel.send({**answer, "unavailable": reason})
                return
            pid, far = checkpoints.make(self.channel.fd)
        except checkpoints.Woken as woken:
            self.resume(woken.descriptor)
            self._greet()
            return
        except Exception as error:
            self.channel.send({**answer, "unavailable": f"the process could not be copied: {error}"})
            return
        self.channel.enclose(encode({**answer, "pid": pid, **checkpoints.size()}), far)
        self.rehearse()

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
        self.channel.disown()

    def _seed(self, request: Frame) -> Frame:
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

    def _evaluate(self, request: Frame) -> Frame:
        return self._compute.answer(request["code"], request.get("seconds", 2.0), request.get("memory", 256 << 20))

    def _tools(self, request: Frame) -> Frame:
        self._bridge.offer(request["tools"])
        return {}

    def _reset(self, request: Frame) -> Frame:
        self._interpreter.clear()
        self._compute.forget()
        seeds.bind_imports(self._interpreter.namespace, self._imports)
        self._interpreter.variables.forget_changes()
        return {}


_OPERATIONS = {
    "seed": Head._seed,
    "vars": Head._vars,
    "inspect": Head._inspect,
    "compute": Head._evaluate,
    "tools": Head._tools,
    "reset": Head._reset,
}


def _sorry(request: Frame, reason: str) -> bytes:
    """The answer to a request that could not be done, or whose result could not be sent."""
    if request["op"] != "run":
        return encode({"t": "answer", "seq": request.get("seq"), "error": reason})
    return encode({**outcome(request["cell"]), "ok": False, "error": errors.brief(RuntimeError(reason))})


def _reason(error: BaseException) -> str:
    text = str(error)
    return text if isinstance(error, (ValueError, LookupError)) and text else f"{type(error).__name__}: {text}"
