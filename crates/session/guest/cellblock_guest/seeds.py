"""Variables and imports given at the start of a session."""

from __future__ import annotations

from keyword import iskeyword

from . import BUILTINS as __builtins__
from . import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Names that everyone uses, so that `imports: ["np"]` is enough.
_SHORTHANDS = {
    "np": "numpy as np",
    "pd": "pandas as pd",
    "plt": "matplotlib.pyplot as plt",
    "sns": "seaborn as sns",
    "pl": "polars as pl",
    "px": "plotly.express as px",
    "go": "plotly.graph_objects as go",
    "sp": "scipy as sp",
    "nx": "networkx as nx",
    "tf": "tensorflow as tf",
    "mpl": "matplotlib as mpl",
    "dt": "datetime as dt",
}


class SeedError(ValueError):
    """A seed that cannot be planted; the message names it."""


def plant(namespace: dict[str, Any], variables: dict[str, Any]) -> None:
    """Bind all variables, or none if one is wrong. `{"$bytes": base64}` stands for bytes."""
    values = {_checked(name): _value(name, value) for name, value in variables.items()}
    namespace.update(values)


def bind_imports(namespace: dict[str, Any], imports: list[str]) -> None:
    """Bind what import statements would: `math`, `numpy as np`, `from math import sqrt`, or a shorthand such as `np`."""
    for text in imports:
        statement = _statement(text)
        try:
            exec(compile(statement, "<imports>", "exec"), namespace)
        except ImportError as error:
            raise SeedError(f"cannot import {text!r}: {error}") from None
        except SyntaxError:
            raise SeedError(f"{text!r} is no import; write for example 'math' or 'numpy as np'") from None


def _statement(text: str) -> str:
    text = _SHORTHANDS.get(text.strip(), text.strip())
    if ";" in text or "\n" in text:
        raise SeedError(f"{text!r} is more than one import")
    return text if text.startswith(("import ", "from ")) else f"import {text}"


def _checked(name: str) -> str:
    if not name.isidentifier() or iskeyword(name):
        raise SeedError(f"{name!r} is no name for a variable")
    if name.startswith("__"):
        raise SeedError(f"{name!r} is reserved for Python itself")
    return name


def _value(name: str, value: Any) -> Any:
    if isinstance(value, dict) and list(value) == ["$bytes"]:
        try:
            return wire.from_base64(value["$bytes"])
        except (ValueError, TypeError) as error:
            raise SeedError(f"the bytes of {name!r} are no base64: {error}") from None
    return value
