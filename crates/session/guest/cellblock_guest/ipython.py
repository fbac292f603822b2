"""IPython as a layer of a session: its syntax, magics, formatters, `In` and `Out`. Only for sessions that ask for it.

Cells run as they always do. IPython translates their source (`%magic`, `!command`, `name?`) before it is compiled, gives values
their forms, and is there as `get_ipython()`. Its history is not kept in a database: the thread that writes it would be one more
thread that every checkpoint has to carry."""

from __future__ import annotations

import builtins
import sys

from . import BUILTINS as __builtins__
from . import hooks, plotting, reprs, values
from .libraries import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .display import Display

_MAX_KEPT_VALUES = 200  # in `Out`
_MAX_KEPT_INPUTS = 5000  # in `In`
_DIRECTORY = "/tmp/.ipython"


class Notebook:
    """The IPython of a session."""

    def __init__(self, module: Any, display: Display) -> None:
        self._display = display
        self.shell: Any = _make_shell(module, display)
        self.hidden: dict[str, Any] = {}
        self._own_callbacks = self._callbacks()
        values.formatter = self._forms
        hooks.after_import("matplotlib.pyplot", self._choose_figure_format)
        self.begin_namespace()

    def begin_namespace(self) -> None:
        """Put IPython's own names into a namespace that was cleared: `In`, `Out`, `get_ipython` and their like."""
        shell = self.shell
        shell.init_user_ns()
        shell.history_manager.reset(new_session=False)
        namespace = shell.user_ns
        namespace.pop("display", None)
        namespace["In"] = namespace["_ih"] = shell.history_manager.input_hist_parsed
        self.hidden = {name: value for name, value in namespace.items() if name[:1] != "_"}

    def translate(self, source: str, count: int | None) -> str:
        """The cell as Python. `count` is its number in the notebook; a cell without one is not kept in `In` and `Out`."""
        shell = self.shell
        # What a magic runs goes the same way as the cell: `%%capture` takes the place of both.
        shell.builtin_trap.__enter__()
        shell.display_trap.__enter__()
        shell.events.trigger("pre_execute")
        shell.events.trigger("pre_run_cell", _info(source))
        translated: str = shell.transform_cell(source)
        if count is not None:
            self._keep_input(count, translated, source)
        return translated

    def keep_value(self, value: Any) -> None:
        """Bind `_` and `Out[n]` to the value of the cell that was translated last."""
        shell, hook = self.shell, self.shell.displayhook
        # Versions differ in whether the shell has counted the cell already when its value is kept.
        before = shell.execution_count
        shell.execution_count += before - hook.prompt_count
        hook.update_user_ns(value)
        shell.execution_count = before

    def leave_cell(self) -> None:
        """Undo what `translate` did around the cell, however it ended."""
        shell = self.shell
        for trap in (shell.display_trap, shell.builtin_trap):
            while trap._nested_level > 0:
                trap.__exit__(None, None, None)

    def end_cell(self) -> None:
        """Tell those who wait for the end of a cell, such as matplotlib's inline backend."""
        events = self.shell.events
        events.trigger("post_execute")
        events.trigger("post_run_cell", _result())

    def has_own_callbacks_only(self) -> bool:
        """Whether no code of the user's is called around each cell."""
        return self._callbacks() == self._own_callbacks

    def _callbacks(self) -> dict[str, list[Any]]:
        return {event: list(callbacks) for event, callbacks in self.shell.events.callbacks.items()}

    def is_complete(self, code: str) -> tuple[str, int | None]:
        """Whether the source can be run, and the indent of the next line."""
        verdict: tuple[str, int | None] = self.shell.input_transformer_manager.check_complete(code)
        return verdict

    def magics(self, beginning: str) -> list[str]:
        """The names of magics that begin so, with their percent signs."""
        found = self.shell.magics_manager.magics
        names = ["%" + name for name in found["line"]] + ["%%" + name for name in found["cell"]]
        return sorted(name for name in names if name.startswith(beginning))

    def _keep_input(self, count: int, translated: str, source: str) -> None:
        shell, history = self.shell, self.shell.history_manager
        shell.execution_count = count
        # Cells that crashed are missing: the state went back to before them.
        for inputs in (history.input_hist_parsed, history.input_hist_raw):
            inputs.extend([""] * min(count - len(inputs), _MAX_KEPT_INPUTS))
            if len(inputs) > _MAX_KEPT_INPUTS:
                inputs[: len(inputs) - _MAX_KEPT_INPUTS // 2] = [""] * (len(inputs) - _MAX_KEPT_INPUTS // 2)
        history.store_inputs(count, translated, source)
        history.db_input_cache.clear()
        shell.user_ns.pop(f"_i{count - _MAX_KEPT_VALUES}", None)

    def _choose_figure_format(self) -> None:
        """Figures are pictures without a word of the code's. Another format that it chooses takes the place of this one."""
        from IPython.core.pylabtools import select_figure_formats  # type: ignore[import-not-found]

        plotting.configure()
        select_figure_formats(self.shell, {"png"})

    def _forms(self, value: Any) -> dict[str, Any] | None:
        """The forms of a value, by IPython's formatters."""
        try:
            data, _ = self.shell.display_formatter.format(value)
        except Exception:
            return None
        forms = {str(name): values.content(form) for name, form in data.items()}
        forms = {name: form for name, form in forms.items() if form is not None}
        text = forms.get("text/plain")
        if isinstance(text, str):
            forms["text/plain"] = reprs.cut(text, reprs.FULL_LIMIT)
        return forms or None


# The form of a display by which a kernel knows the text of the next cell.
_NEXT_INPUT = "application/vnd.cellblock.next-input+json"


def _make_shell(module: Any, display: Display) -> Any:
    from IPython.core.displayhook import DisplayHook  # type: ignore[import-not-found]
    from IPython.core.displaypub import DisplayPublisher  # type: ignore[import-not-found]
    from IPython.core.interactiveshell import InteractiveShell  # type: ignore[import-not-found]
    from traitlets import Type  # type: ignore[import-not-found]
    from traitlets.config import Config  # type: ignore[import-not-found]

    class Hook(DisplayHook):  # type: ignore[misc]
        """Shows the values of cells that magics run, such as `%%capture`."""

        def start_displayhook(self) -> None:
            pass

        def write_output_prompt(self) -> None:
            pass

        def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
            display.function(format_dict, raw=True, metadata=md_dict)

        def finish_displayhook(self) -> None:
            pass

    class Publisher(DisplayPublisher):  # type: ignore[misc]
        """Shows what libraries publish through IPython."""

        def publish(self, data: Any, metadata: Any = None, *, transient: Any = None, update: bool = False, **_keys: Any) -> None:
            display.function(data, raw=True, metadata=metadata, update=update, display_id=(transient or {}).get("display_id"))

        def clear_output(self, wait: bool = False) -> None:
            display.clear(wait)

    class ZMQInteractiveShell(InteractiveShell):  # type: ignore[misc]
        """The shell of a session. Libraries look at its name to learn that they are in a notebook."""

        displayhook_class = Type(Hook)
        display_pub_class = Type(Publisher)

        def enable_gui(self, gui: Any = None) -> None:
            """Sessions have no windows. `%matplotlib inline` calls this."""

        def set_next_input(self, s: str, replace: bool = False) -> None:
            """The text that the front end shall offer as its next cell: `%load`, `%recall`."""
            display.function({"text/plain": s, _NEXT_INPUT: {"text": s, "replace": replace}}, raw=True)

        def init_virtualenv(self) -> None:
            pass

        def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
            print(self.InteractiveTB.stb2text(stb), file=sys.stderr)

        def system(self, cmd: str) -> None:
            """`!cmd`: a child process whose output is that of the cell."""
            self.user_ns["_exit_code"] = _run_command(self.var_expand(cmd, depth=1))

        system_piped = system_raw = system

        def getoutput(self, cmd: str, split: bool = True, depth: int = 0) -> Any:
            """`files = !ls`: the output of a child process."""
            from subprocess import DEVNULL, PIPE, STDOUT, run

            from IPython.utils.text import LSString, SList  # type: ignore[import-not-found]

            command = self.var_expand(cmd, depth=depth + 1)
            done = run(command, shell=True, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, check=False)
            text = done.stdout.decode("utf-8", "replace")
            return SList(text.splitlines()) if split else LSString(text)

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.cache_size = _MAX_KEPT_VALUES
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.xmode = "Plain"
    config.IPKernelApp.name = "cellblock"  # tqdm and others look for this key
    shell = ZMQInteractiveShell.instance(
        config=config, user_module=module, user_ns=module.__dict__, ipython_dir=_DIRECTORY, profile_dir=_profile(), parent=None
    )
    shell.set_hook("show_in_pager", lambda _shell, data, start=0, screen_lines=0: _show_page(display, data), 99)
    return shell


def _profile() -> Any:
    """A profile without files: the directory is made only where something is written there."""
    from IPython.core.profiledir import ProfileDir  # type: ignore[import-not-found]

    class Profile(ProfileDir):  # type: ignore[misc]
        def check_dirs(self) -> None:
            pass

        def _location_changed(self, change: Any) -> None:
            pass

    return Profile(location=_DIRECTORY + "/profile_default")


def _show_page(display: Display, data: Any) -> None:
    mime = data if isinstance(data, dict) else {"text/plain": str(data)}
    display.function({"text/plain": mime.get("text/plain", "")}, raw=True)


def _run_command(command: str) -> int:
    from subprocess import DEVNULL, Popen

    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with Popen(command, shell=True, stdin=DEVNULL) as child:
        try:
            return child.wait()
        except BaseException:
            child.kill()
            raise


def _info(source: str) -> Any:
    interactive: Any = modules["IPython.core.interactiveshell"]
    return interactive.ExecutionInfo(source, True, False, True, None)


def _result() -> Any:
    interactive: Any = modules["IPython.core.interactiveshell"]
    return interactive.ExecutionResult(None)


def make(module: Any, display: Display) -> Notebook | None:
    """The IPython of a session; None where it is not installed, or does not start."""
    names = vars(builtins)
    before = dict(names)
    display.has_ipython = True
    try:
        notebook = Notebook(module, display)
    except Exception:
        display.has_ipython = False
        values.formatter = None
        names.update(before)
        return None
    shown: Any = modules["IPython.display"]
    names.update(display=shown.display, clear_output=shown.clear_output)
    return notebook
