"""Cells that can be run again at any time and then do the same: `x = 1`, `1 + 1`, `total = a + b` with numbers.

A checkpoint from before such a cell is as good as one from after it, if the cell is run again when the checkpoint is woken."""

from __future__ import annotations

import builtins
from opcode import opmap

from . import BUILTINS as __builtins__
from .programs import VALUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

# No calls, attributes, loops or functions: such a cell reads and binds variables, and computes. Names differ between versions.
_COMPUTES = frozenset(
    opmap[name]
    for name in (
        *("RESUME", "CACHE", "NOP", "POP_TOP", "RETURN_VALUE", "RETURN_CONST"),
        *("LOAD_CONST", "LOAD_SMALL_INT", "LOAD_NAME", "STORE_NAME"),
        *("COPY", "SWAP", "DUP_TOP", "ROT_TWO", "ROT_THREE"),
        *("BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP", "IS_OP", "CONTAINS_OP"),
        *("BINARY_ADD", "BINARY_SUBTRACT", "BINARY_MULTIPLY", "BINARY_TRUE_DIVIDE", "BINARY_FLOOR_DIVIDE", "BINARY_MODULO"),
        *("BINARY_POWER", "BINARY_AND", "BINARY_OR", "BINARY_XOR", "BINARY_LSHIFT", "BINARY_RSHIFT"),
        *("INPLACE_ADD", "INPLACE_SUBTRACT", "INPLACE_MULTIPLY", "INPLACE_TRUE_DIVIDE"),
        *("UNARY_NEGATIVE", "UNARY_NOT", "UNARY_INVERT"),
        *("BUILD_TUPLE", "BUILD_LIST", "LIST_EXTEND"),
    )
    if name in opmap
)
# What holds no other object, and does nothing when it is computed with or dropped.
_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None)})
_MAX_BYTES = 400
_MAX_CPU_MS = 2.0


def is_repeatable(code: CodeType, namespace: dict[str, Any]) -> bool:
    """Whether the code, run from this state, does the same whenever it is run. Must be asked before it runs."""
    instructions = code.co_code
    if len(instructions) > _MAX_BYTES or not _COMPUTES.issuperset(instructions[::2]):
        return False
    for name in code.co_names:
        if name in namespace:
            if type(namespace[name]) not in _PLAIN:
                return False
        elif name in vars(builtins):
            return False
        if name[:1] == "_" and name != VALUE:
            return False
    return True


def was_cheap(cpu_ms: float) -> bool:
    """Whether the cell took so little that it may be run again without a word."""
    return cpu_ms <= _MAX_CPU_MS
