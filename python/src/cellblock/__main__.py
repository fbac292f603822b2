"""`python -m cellblock …` is the command `cellblock …`."""

from __future__ import annotations

import os
import sys

from ._binary import find_binary
from .errors import BinaryError


def main() -> None:
    """Becomes the program `cellblock` with the same arguments."""
    try:
        program = find_binary()
    except BinaryError as error:
        sys.exit(f"error: {error}")
    os.execv(program, ["cellblock", *sys.argv[1:]])


main()
