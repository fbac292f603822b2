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

# The global generators, with what sets their state by hand.
_SETTERS = {
    "random": ("seed", "setstate"),
    "numpy.random": ("seed", "set_state"),
    "torch": ("manual_seed", "set_rng_state"),
}
_LIBRARIES = tuple(_SETTERS)

_seeded: set[str] = set()
_fresh: dict[str, Callable[[], Any]] = {}


def refresh() -> None:
    """Seed the global generators anew from the system, where their libraries are loaded."""
    for name in _LIBRARIES:
        _refresh(name)


def refresh_unseeded() -> None:
    """The same for those that the code never seeded: in a fork. CPython itself has seen to `random`."""
    for name in _LIBRARIES:
        if name != "random" and name not in _seeded:
            _refresh(name)


def is_seeded(name: str) -> bool:
    """Whether the code has set the state of a library's generator."""
    return name in _seeded


def notice_seeds() -> None:
    """From now on, notice when the code seeds a generator."""
    for name in _LIBRARIES:
        hooks.after_import(name, lambda name=name: _notice(name))  # type: ignore[misc]


def _refresh(name: str) -> None:
    library: Any = modules.get(name)
    if library is not None:
        _fresh.get(name, library.seed)()


def _notice(name: str) -> None:
    library: Any = modules[name]
    _fresh[name] = library.seed
    for setter in _SETTERS[name]:
        setattr(library, setter, _noticing(name, getattr(library, setter)))


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
