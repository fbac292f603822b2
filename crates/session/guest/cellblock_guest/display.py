"""`display(...)`, as notebooks have it, and what is shown at the end of a cell."""

from __future__ import annotations

from . import BUILTINS as __builtins__
from . import hooks, plotting, values
from .libraries import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Display:
    """Sends bundles to the host, live and in order, within the budget of the cell."""

    def __init__(self, emit: Callable[[dict[str, Any]], None]) -> None:
        self._emit = emit
        self.budget = values.Budget()
        self.function = self._function()
        plotting.connect(self.show)
        hooks.after_import("IPython.core.display_functions", self._replace_ipython)

    def begin_cell(self) -> None:
        self.budget = values.Budget(values.BUNDLE_LIMIT)

    def show(self, mime: dict[str, Any]) -> None:
        self._emit({"t": "display", "mime": self.budget.admit(mime)})

    def _function(self) -> Callable[..., None]:
        """The `display` that cells call."""

        def display(*objects: Any, **_options: Any) -> None:
            """Show objects in the result of the cell: tables, figures, images, or anything with a `_repr_*_` method."""
            for value in objects:
                if values.shows_itself(value):
                    value._ipython_display_()
                    continue
                self.show(values.bundle(value))
                plotting.close(value)

        display.__module__ = "builtins"
        display.__qualname__ = "display"
        return display

    def value(self, value: Any) -> dict[str, Any]:
        """The value of a cell. A figure is shown as the value, and not once more as an open figure."""
        if type(value) in values.PLAIN_KINDS:
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
            if name in modules:
                vars(modules[name])["display"] = self.function

    def end_cell(self) -> None:
        if plotting.has_open_figures():
            plotting.show()
