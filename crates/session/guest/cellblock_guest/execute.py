"""One cell: compile, run, and say what came of it."""

from __future__ import annotations

import builtins
import sys
from os import _exit
from resource import RLIMIT_DATA, RUSAGE_CHILDREN, RUSAGE_SELF, getrlimit, getrusage, setrlimit
from time import process_time

from . import BUILTINS as __builtins__
from . import errors, loops, native, recursion
from .interrupts import Interrupts
from .libraries import modules
from .programs import VALUE, Compiler
from .repeatable import is_repeatable, was_cheap
from .sources import Sources
from .variables import Variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any, NoReturn

    from .display import Display
    from .ipython import Notebook
    from .streams import Streams
    from .wire import Frame

_COROUTINE = 0x80
_WORTH_A_RESET = 16 << 20


class Interpreter:
    """The namespace of a session, and the running of cells in it."""

    def __init__(self, streams: Streams, display: Display, is_interrupted: Callable[[int], bool]) -> None:
        self._streams = streams
        self._display = display
        self._workspace = ""
        self._module = type(sys)("__main__")
        self._compiler = Compiler()
        self._sources = Sources()
        self._interrupts = Interrupts(is_interrupted)
        self._loaded = dict(modules)
        self._trace: Any = None
        self._profile: Any = None
        self._peak = 0
        self._floor = 0
        self._keeps_value = False  # whether `_` is the value of an earlier cell
        self.forked = False  # set in a process that user code forked from this one
        self.notebook: Notebook | None = None
        self.namespace: dict[str, Any] = self._module.__dict__
        self.variables = Variables(self.namespace)
        self.clear()

    def begin(self, workspace: str) -> None:
        """Once, in the process that will run the cells."""
        self._workspace = workspace
        self._floor = getrusage(RUSAGE_SELF).ru_maxrss * 1024

    def use_ipython(self, shell: str) -> None:
        """Let cells be those of a notebook, where IPython is installed."""
        from . import ipython

        self.notebook = ipython.make(self._module, self._display)
        if self.notebook is not None and shell == "e2b":
            from . import e2b_forms

            e2b_forms.add(self.notebook.shell, self._display)
        self.clear()

    def run(
        self, number: int, source: str, script: Frame | None = None, keep_value: bool = False, count: int | None = None
    ) -> Frame:
        """Run a cell, which may be a script with a name and arguments. The answer is its `done` frame.

        With `keep_value` the value is `_` from then on. `count` is the number of the cell in a notebook, which has one of its
        own."""
        started = _cpu_time()
        self._reset_peak()
        done = outcome(number)
        self._prepare()
        touched, repeatable = True, False
        try:
            try:
                self._interrupts.allow(number)
                filename = f"<cell {number}>" if script is None else self._begin_script(script)
                self._sources.add(filename, source)
                code = self._compile(source, filename, number, count)
                touched = self.notebook is not None or _can_touch_names(code)
                repeatable = script is None and self._is_left_alone() and is_repeatable(code, self.namespace)
                value = self._evaluate(code)
                if value is not None and not self._display.is_silent:
                    done["value"] = self._display.value(value)
                    if keep_value:
                        self._keep(value)
                        touched = True
                    if self.notebook is not None and number > 0:
                        self.notebook.keep_value(value)
                    del value
                if self.notebook is not None and number > 0:
                    self.notebook.end_cell()
            except BaseException as error:
                if self.forked:
                    self._leave(error)
                if isinstance(error, MemoryError):
                    _take_reserve()
                _fail(done, self._explain(error))
            self._display.end_cell()
            self._streams.end_cell()
        except BaseException as error:  # an interrupt, or a signal handler of the user's, while the result was being made
            _fail(done, errors.brief(error))
        self._interrupts.allowed = False
        if self.notebook is not None:
            self.notebook.leave_cell()
        if self.forked:
            self._leave(None)
        if touched:
            if changes := self.variables.changes():
                done["variables"] = changes
        elif done["ok"]:
            done["pure"] = True
        self._streams.flush()
        done["cpu_ms"] = round((_cpu_time() - started) * 1000, 3)
        if touched and repeatable and done["ok"] and was_cheap(done["cpu_ms"]):
            done["repeatable"] = True
        done["peak_bytes"] = self._peak = getrusage(RUSAGE_SELF).ru_maxrss * 1024
        return done

    def _compile(self, source: str, filename: str, number: int, count: int | None) -> CodeType:
        if self.notebook is not None and number > 0:
            is_kept = not self._display.is_silent
            source = self.notebook.translate(source, (number if count is None else count) if is_kept else None)
        return self._compiler.compile(source, filename)

    def _reset_peak(self) -> None:
        """The kernel keeps the peak of the whole life. A cell after a large one shall not be blamed for it."""
        if self._peak < self._floor + _WORTH_A_RESET:
            return
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
        except OSError:
            pass
        self._floor = getrusage(RUSAGE_SELF).ru_maxrss * 1024

    def _is_left_alone(self) -> bool:
        """Whether nothing of the user's runs beside a cell: a thread, a trace, a callback of IPython's."""
        if self._trace is not None or self._profile is not None or native.has_other_threads():
            return False
        return self.notebook is None or self.notebook.has_own_callbacks_only()

    def repeat(self, cells: list[Frame]) -> int:
        """Run cells again that can be repeated, and say how many did as they did before."""
        for count, cell in enumerate(cells):
            done = self.run(cell["cell"], cell["code"], None, bool(cell.get("keep_value")), cell.get("count"))
            if not done["ok"]:
                return count
        return len(cells)

    def clear(self) -> None:
        """Forget all variables."""
        self._compiler = Compiler()
        self.namespace.clear()
        if self._keeps_value:
            self._keeps_value = False
            vars(builtins).pop("_", None)
        self._mend()
        if self.notebook is not None:
            self.notebook.begin_namespace()
            self.variables.hidden = self.notebook.hidden
        self.variables.forget_changes()

    def rehearse(self) -> Frame:
        """Run a cell that leaves no trace. After a fork this brings back the pages that every cell writes to."""
        done = self.run(-1, "1+1")
        self.forget("<cell -1>")
        return done

    def forget(self, filename: str) -> None:
        """Drop the source of a cell that was none."""
        self._sources.remove(filename)

    def _keep(self, value: Any) -> None:
        # Where Python's own prompt puts it: a variable `_` of the user's comes first.
        vars(builtins)["_"] = value
        self._keeps_value = True

    def _begin_script(self, script: Frame) -> str:
        """Let the code find itself as Python runs a script. The answer is the name of its file."""
        name: str = script["name"]
        self.namespace["__file__"] = name
        sys.argv = [name, *script["arguments"]]
        return name

    def _prepare(self) -> None:
        """Undo what earlier cells may have broken that this one needs."""
        self._mend()
        self._streams.begin_cell()
        self._display.begin_cell()
        self._interrupts.begin_cell()

    def _mend(self) -> None:
        namespace = self.namespace
        if "__name__" not in namespace:
            namespace.update(__name__="__main__", __doc__=None, __package__=None, __loader__=None, __spec__=None)
        # Not left to `eval`: it would put our own copy of the builtins there.
        namespace["__builtins__"] = builtins
        if "sys" not in modules:  # `sys.modules.clear()`: without this no import works again
            modules.update(self._loaded)
        modules["__main__"] = self._module

    def _evaluate(self, code: CodeType) -> Any:
        recursion.exclude_own_frames()
        try:
            if self._trace is not None or self._profile is not None:
                sys.settrace(self._trace)
                sys.setprofile(self._profile)
            value = eval(code, self.namespace)
            if code.co_flags & _COROUTINE:
                value = loops.run(value)
            return self.namespace.pop(VALUE, None) if value is None else value
        finally:
            # What the cell set up for itself goes on in the next cell, but does not watch or limit us.
            self._trace, self._profile = sys.gettrace(), sys.getprofile()
            if self._trace is not None or self._profile is not None:
                sys.setprofile(None)
                sys.settrace(None)
            recursion.mend()

    def _explain(self, error: BaseException) -> dict[str, Any]:
        try:
            return errors.describe(error, self._sources, self._workspace)
        except Exception:
            return errors.brief(error)

    def _leave(self, error: BaseException | None) -> NoReturn:
        """End a process that user code forked, as Python ends: the loop belongs to the parent."""
        status = 0
        try:
            if isinstance(error, SystemExit):
                status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
            elif error is not None:
                status = 1
                self._streams.stderr.write(self._explain(error)["traceback"])
            self._streams.end_cell()
        finally:
            _exit(status & 0xFF)


def _take_reserve() -> None:
    """A cell may keep what it filled the memory with. The soft limit goes up, so that the next cell can run and clear it away."""
    if native.take_memory_reserve():
        return
    try:
        _, hard = getrlimit(RLIMIT_DATA)
        setrlimit(RLIMIT_DATA, (hard, hard))
    except (OSError, ValueError):
        pass


def _cpu_time() -> float:
    """Of this process, and of the children that it waited for."""
    children = getrusage(RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def outcome(number: int) -> Frame:
    """The `done` frame of a cell of which nothing is known yet. What is not said is nothing."""
    return {"t": "done", "cell": number, "ok": True}


def _fail(done: Frame, error: dict[str, Any]) -> None:
    done.pop("value", None)
    done["ok"] = False
    done["error"] = error


def _can_touch_names(code: CodeType) -> bool:
    """False for `1 + 1` and its like: such a cell cannot have changed a variable."""
    if code.co_names:
        return True
    for constant in code.co_consts:
        if type(constant) is type(code):
            return True
    return False
