"""Something to do when a library is imported, at once if it is loaded already, else the moment it is."""

from __future__ import annotations

import sys

from . import BUILTINS as __builtins__
from .libraries import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_after: dict[str, Callable[[], None]] = {}


def after_import(name: str, action: Callable[[], None]) -> None:
    if name in modules:
        _run(action)
        return
    _after[name] = action
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


class _Finder:
    """Finds nothing itself: it lets the others find a module that is waited for, and adds the action to its loading."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _after:
            return None
        for finder in list(sys.meta_path):
            if finder is not cls and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    _extend(spec.loader, name)
                    return spec
        return None


def _extend(loader: Any, name: str) -> None:
    def exec_module(module: Any) -> None:
        del loader.exec_module
        loader.exec_module(module)
        action = _after.pop(name, None)
        if action is not None:
            _run(action)

    if not isinstance(loader, type):  # frozen and builtin modules share one class as their loader
        loader.exec_module = exec_module


def _run(action: Callable[[], None]) -> None:
    try:
        action()
    except Exception:  # a hook is a comfort; the import must go through
        pass
