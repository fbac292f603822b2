"""matplotlib in a session that has no screen: figures become pictures in the result."""

from __future__ import annotations

import sys
from io import BytesIO
from os.path import isfile, join

from . import BUILTINS as __builtins__
from .libraries import modules
from .wire import as_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Families with Chinese, Japanese and Korean glyphs, the most complete first.
_CJK_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Microsoft YaHei",
    "PingFang SC",
    "SimHei",
    "Sarasa Gothic SC",
    "Droid Sans Fallback",
    "Arial Unicode MS",
    "IPAexGothic",
    "AR PL UMing CN",
)

# The font that the default environment brings, in a directory of `sys.path`.
_BROUGHT_FONT = join("zhplot", "fonts", "NotoSansSC-Regular.ttf")
# Names that programs ask for. Where the machine lacks one, the font that is there stands for it, without a warning.
_USUAL_NAMES = (
    "SimHei",
    "SimSun",
    "Microsoft YaHei",
    "PingFang SC",
    "Heiti SC",
    "Songti SC",
    "STHeiti",
    "STSong",
    "Arial Unicode MS",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
)

_show: Callable[[dict[str, Any]], None] | None = None
_forms: Callable[[Any], dict[str, Any]] | None = None


def connect(show: Callable[[dict[str, Any]], None], forms: Callable[[Any], dict[str, Any]]) -> None:
    """Where bundles of shown figures go in this session, and what makes the bundle of a figure there."""
    global _show, _forms
    _show = show
    _forms = forms


def configure() -> None:
    """Settings and hooks of a loaded matplotlib. Called once after `matplotlib.pyplot` is imported, or at preload."""
    pyplot: Any = modules["matplotlib.pyplot"]
    if getattr(pyplot.show, "__module__", "") == __name__:
        return
    pyplot.rcParams["axes.unicode_minus"] = False
    _add_cjk_font(pyplot)
    pyplot.show = show
    modules["matplotlib.figure"].Figure.show = _show_figure


def show(*args: Any, **kwargs: Any) -> None:
    """Display all open figures, and close them."""
    figures = _figures()
    for number in sorted(figures):
        _display_and_close(number, figures[number].canvas.figure)


def has_open_figures() -> bool:
    helpers: Any = modules.get("matplotlib._pylab_helpers")
    return helpers is not None and bool(helpers.Gcf.figs)


def close(figure: Any) -> None:
    """Close a figure if pyplot still holds it."""
    for number, manager in list(_figures().items()):
        if manager.canvas.figure is figure:
            modules["matplotlib.pyplot"].close(number)


def bundle(figure: Any) -> dict[str, str]:
    """A figure as a PNG, with nothing that sticks out of it cut off."""
    width, height = figure.get_size_inches() * figure.dpi
    mime = {"text/plain": f"<Figure {round(width)}x{round(height)}>"}
    if figure.axes or figure.lines or figure.texts or figure.images or figure.patches or getattr(figure, "subfigs", None):
        buffer = BytesIO()
        try:
            figure.savefig(buffer, format="png", dpi=figure.dpi, bbox_inches="tight")
        except Exception as error:
            mime["text/plain"] += f" (cannot be drawn: {type(error).__name__}: {error})"
        else:
            mime["image/png"] = as_base64(buffer.getbuffer())
    return mime


def _figures() -> dict[int, Any]:
    helpers: Any = modules.get("matplotlib._pylab_helpers")
    return dict(helpers.Gcf.figs) if helpers is not None else {}


def _show_figure(figure: Any, *args: Any, **kwargs: Any) -> None:
    if _show is not None:
        _show(_bundle_in_session(figure))
    close(figure)


def _display_and_close(number: int, figure: Any) -> None:
    mime = _bundle_in_session(figure)
    modules["matplotlib.pyplot"].close(number)
    # A figure without content has its text alone.
    if _show is not None and len(mime) > 1:
        _show(mime)


def _bundle_in_session(figure: Any) -> dict[str, Any]:
    """The forms that the session gives its values: those of IPython, where it has it."""
    return bundle(figure) if _forms is None else _forms(figure)


def _add_brought_font(manager: Any) -> str | None:
    """Add the font of the default environment, if it is there. Its family."""
    for directory in sys.path:
        path = join(directory, _BROUGHT_FONT)
        if isfile(path):
            manager.fontManager.addfont(path)
            return str(manager.fontManager.ttflist[-1].name)
    return None


def _name_font(manager: Any, font: str) -> None:
    """Let a font stand for the usual names that the machine has no font for."""
    from dataclasses import replace

    fonts = manager.fontManager.ttflist
    names = {entry.name for entry in fonts}
    entries = [entry for entry in fonts if entry.name == font]
    fonts.extend([replace(entry, name=name) for name in _USUAL_NAMES if name not in names for entry in entries])


def _add_cjk_font(pyplot: Any) -> None:
    """Use a font with CJK glyphs for what the default font lacks, if the machine has one."""
    try:
        manager = modules["matplotlib.font_manager"]
        names = {font.name for font in manager.fontManager.ttflist}
        font = next((name for name in _CJK_FONTS if name in names), None)
        if font is None:
            font = _add_brought_font(manager)
        if font is not None:
            _name_font(manager, font)
            settings = pyplot.rcParams
            families = [name for name in settings["font.sans-serif"] if name != font]
            settings["font.sans-serif"] = [*families[:1], font, *families[1:]]
            # Since 3.6 matplotlib takes a missing glyph from the next *family*, not from the next name within one.
            settings["font.family"] = [*settings["font.family"], font]
    except Exception:  # a plot without such a font is better than none
        pass
