"""Forms of values that clients of the E2B API read, beside those of a notebook: columns of tables, charts, JSON, saved images."""

from __future__ import annotations

import json
import sys

from . import BUILTINS as __builtins__
from . import hooks, tables
from .libraries import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .display import Display

_DATA = "e2b/data"
_CHART = "e2b/chart"
_JSON = "application/json"


def add(shell: Any, display: Display) -> None:
    """Give the values of a session these forms. Libraries are not imported for that."""
    formatter = shell.display_formatter
    bundles = formatter.mimebundle_formatter
    # The name that a data frame gives as its module changed with pandas 3.
    for module in ("pandas", "pandas.core.frame"):
        bundles.for_type_by_name(module, "DataFrame", _table)
    bundles.for_type_by_name("matplotlib.figure", "Figure", _chart)
    for kind in (list, dict):
        formatter.formatters[_JSON].for_type(kind, lambda value: value)
    hooks.after_import("PIL.Image", lambda: _show_images(display))


def _table(frame: Any, include: Any = None, exclude: Any = None) -> dict[str, Any]:
    found = tables.columns(frame)
    return {} if found is None else {_DATA: found}


def _chart(figure: Any, include: Any = None, exclude: Any = None) -> dict[str, Any]:
    """What a figure shows, as data: made by the package `e2b_charts`, where the environment has it."""
    if not figure.axes:
        return {}
    try:
        from e2b_charts import chart_figure_to_dict  # type: ignore[import-not-found]

        # As JSON has it: kinds of charts are enumerations there.
        return {_CHART: json.loads(json.dumps(chart_figure_to_dict(figure)))}
    except Exception:  # a picture without its data is better than none
        return {}


def _show_images(display: Display) -> None:
    """Show images of Pillow that code saves to a file, or opens in a window that is not there."""
    image_type: Any = modules["PIL.Image"].Image
    save = image_type.save

    def save_and_show(image: Any, fp: Any, format: Any = None, **options: Any) -> None:
        save(image, fp, format, **options)
        # matplotlib saves its figures through Pillow; they are shown as figures.
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if not hasattr(fp, "write") and not str(caller).startswith("matplotlib"):
            display.function(image)

    def show(image: Any, title: Any = None, **_options: Any) -> None:
        display.function(image)

    image_type.save = save_and_show
    image_type.show = show
