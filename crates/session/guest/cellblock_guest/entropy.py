"""Random numbers: fresh ones for a new session, for all are forked from one process and would draw the same; and what the code
has seeded itself is left alone."""

from __future__ import annotations

from . import BUILTINS as __builtins__
from . import hooks
from .libraries import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# The global generators: what seeds them by hand, and what gets and sets their state.
_FUNCTIONS = {
    "random": ("seed", "getstate", "setstate"),
    "numpy.random": ("seed", "get_state", "set_state"),
    "torch": ("manual_seed", "get_rng_state", "set_rng_state"),
}
_LIBRARIES = tuple(_FUNCTIONS)

_seeded: set[str] = set()
# What the generators begin with, where the host says so: a list with one number.
_fixed: list[int] = []
# What a library had before seeds were noticed: to draw a fresh seed, to get the state, and to set it.
_originals: dict[str, dict[str, Callable[..., Any]]] = {}


def refresh() -> None:
    """Seed the global generators anew from the system, where their libraries are loaded."""
    for name in _LIBRARIES:
        _refresh(name)


class FreshSeeds:
    """Fresh numbers for a copy of this process that is about to be made, in the generators that the code never seeded: in the
    copy that would take longer, for its pages are not its own yet. Afterwards this process gets its own state back."""

    def __init__(self, besides: tuple[str, ...]) -> None:
        self._besides = besides
        self._own: list[tuple[str, Any]] = []

    def apply(self) -> None:
        for name in _LIBRARIES:
            if name not in self._besides and name not in _seeded and name in modules:
                try:
                    self._own.append((name, _function(name, "get")()))
                    _refresh(name)
                except Exception:  # the code has put a generator in its place that cannot be seeded like this
                    pass

    def revert(self) -> None:
        for name, state in self._own:
            _function(name, "set")(state)


def is_seeded(name: str) -> bool:
    """Whether the code has set the state of a library's generator."""
    return name in _seeded


def fix(seed: int) -> None:
    """Begin with this number, in the generators that are loaded and in those that are loaded later.

    A session that is made again on another machine then draws the same numbers.
    """
    _fixed[:] = [seed]
    for name in _LIBRARIES:
        _begin_fixed(name)


def notice_seeds() -> None:
    """From now on, notice when the code seeds a generator."""
    for name in _LIBRARIES:
        hooks.after_import(name, lambda name=name: _notice(name))  # type: ignore[misc]


def _refresh(name: str) -> None:
    if name in modules:
        _function(name, "seed")()


def _function(name: str, purpose: str) -> Callable[..., Any]:
    return (_originals.get(name) or _functions(name))[purpose]


def _functions(name: str) -> dict[str, Callable[..., Any]]:
    library: Any = modules[name]
    _, get_state, set_state = _FUNCTIONS[name]
    return {"seed": library.seed, "get": getattr(library, get_state), "set": getattr(library, set_state)}


def _notice(name: str) -> None:
    library: Any = modules[name]
    seed, _, set_state = _FUNCTIONS[name]
    _originals[name] = _functions(name)
    for setter in (seed, set_state):
        setattr(library, setter, _noticing(name, getattr(library, setter)))
    _begin_fixed(name)


def _begin_fixed(name: str) -> None:
    if _fixed and name in modules:
        library: Any = modules[name]
        getattr(library, _FUNCTIONS[name][0])(_fixed[0])
        _seeded.add(name)


def _noticing(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def set_state(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        # `seed()` and `seed(None)` ask for fresh numbers.
        if all(value is None for value in (*arguments, *options.values())):
            _seeded.discard(name)
        else:
            _seeded.add(name)
        return result

    set_state.__name__ = set_state.__qualname__ = function.__name__
    set_state.__doc__ = function.__doc__
    set_state.__wrapped__ = function  # type: ignore[attr-defined]  # for `inspect.signature`
    return set_state
