"""Variables of the environment that only one cell sees."""

from __future__ import annotations

import os

from . import BUILTINS as __builtins__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class CellEnvironment:
    """A context that sets variables, and afterwards puts back what was there, whatever the cell did to them."""

    def __init__(self, variables: dict[str, str]) -> None:
        self._variables = variables
        self._before: dict[str, str | None] = {}

    def __enter__(self) -> None:
        if not self._variables:
            # Code may have changed what `os` consists of; a cell without variables needs none of it.
            return
        self._before = {name: os.environ.get(name) for name in self._variables}
        os.environ.update(self._variables)

    def __exit__(self, *_: Any) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
