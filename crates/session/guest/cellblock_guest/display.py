"""`display(...)`, as notebooks have it, and what is shown at the end of a cell."""

from __future__ import annotations

from . import BUILTINS as __builtins__
from . import hooks, plotting, values, wire
from .libraries import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class DisplayHandle:
    """What `display(..., display_id=True)` returns: a way to show something else in the same place."""

    def __init__(self, display: Callable[..., Any], display_id: str) -> None:
        self._display = display
        self.display_id = display_id

    def __repr__(self) -> str:
        return f"<DisplayHandle display_id={self.display_id}>"

    def display(self, value: Any, **options: Any) -> None:
        """Show the value under this id once more."""
        self._display(value, display_id=self.display_id, **options)

    def update(self, value: Any, **options: Any) -> None:
        """Show the value instead of what was shown under this id."""
        self._display(value, display_id=self.display_id, update=True, **options)


class Display:
    """Sends bundles to the host, live and in order, within the budget of the cell."""

    def __init__(self, emit: Callable[[dict[str, Any]], None]) -> None:
        self._emit = emit
        self.budget = values.Budget()
        self.is_silent = False
        self.has_ipython = False  # IPython's own functions then show things here
        self.function = self._function()
        plotting.connect(self.show, values.bundle)
        hooks.after_import("IPython.core.display_functions", self._replace_ipython)

    def begin_cell(self) -> None:
        self.budget = values.Budget(values.BUNDLE_LIMIT)

    def show(self, mime: dict[str, Any], **options: Any) -> None:
        if not self.is_silent:
            self._emit({"t": "display", "mime": self.budget.admit(mime), **options})

    def clear(self, wait: bool = False) -> None:
        """Take back what the cell has shown; with `wait`, when it shows something new."""
        if not self.is_silent:
            self._emit({"t": "clear_output", "wait": bool(wait)})

    def _function(self) -> Callable[..., DisplayHandle | None]:
        """The `display` that cells call."""

        def display(
            *objects: Any,
            display_id: Any = None,
            update: bool = False,
            metadata: Any = None,
            raw: bool = False,
            **_options: Any,
        ) -> DisplayHandle | None:
            """Show objects in the result of the cell: tables, figures, images, or anything with a `_repr_*_` method.

            With `display_id` (a text, or True for a fresh one) the answer is a handle, whose `update(other)` shows something else
            in the same place. With `raw=True` the objects are MIME bundles: dictionaries from types to contents.
            """
            options: dict[str, Any] = {}
            if display_id is not None:
                options["display_id"] = _fresh_id() if display_id is True else str(display_id)
            elif update:
                raise TypeError("display_id is required for an update")
            if update:
                options["update"] = True
            if metadata:
                options["metadata"] = wire.plain(dict(metadata), "metadata")
            for value in objects:
                if raw:
                    self.show(_raw_bundle(value), **options)
                elif values.shows_itself(value):
                    value._ipython_display_()
                else:
                    self.show(values.bundle(value), **options)
                    plotting.close(value)
            return DisplayHandle(self.function, options["display_id"]) if "display_id" in options else None

        display.__module__ = "builtins"
        display.__qualname__ = "display"
        return display

    def update_function(self, value: Any, *, display_id: str, **options: Any) -> None:
        """Show the value instead of what was shown under this id."""
        self.function(value, display_id=display_id, update=True, **options)

    def value(self, value: Any) -> dict[str, Any]:
        """The value of a cell. A figure is shown as the value, and not once more as an open figure."""
        if type(value) in values.PLAIN_KINDS and values.formatter is None:
            return values.result(value, self.budget)
        if values.shows_itself(value):
            try:
                value._ipython_display_()
            except Exception:  # its repr is there all the same
                pass
        result = values.result(value, self.budget)
        if "image/png" in result["mime"] and plotting.has_open_figures():
            plotting.close(value)
        return result

    def _replace_ipython(self) -> None:
        """`from IPython.display import display` gives ours: theirs, without a notebook around it, only prints."""
        for name in ("IPython.core.display_functions", "IPython.display"):
            if name in modules and not self.has_ipython:
                vars(modules[name]).update(display=self.function, clear_output=self.clear, update_display=self.update_function)

    def end_cell(self) -> None:
        if self.is_silent:
            return
        if plotting.has_open_figures():
            plotting.show()


def _fresh_id() -> str:
    from binascii import hexlify
    from os import urandom

    return hexlify(urandom(16)).decode()


def _raw_bundle(value: Any) -> dict[str, Any]:
    """The forms that code gives itself, as they can be sent."""
    forms = {str(name): values.content(data) for name, data in dict(value).items()}
    return {name: data for name, data in forms.items() if data is not None}
