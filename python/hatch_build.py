"""Puts the program `cellblock` into the wheel, and gives the wheel the tag of the systems that the program runs on.

Without a program (`CELLBLOCK_WHEEL_BINARY` is not set) the wheel holds the client alone and fits every system.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_ELF_MACHINES = {62: "x86_64", 183: "aarch64"}


class BinaryHook(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        binary = os.environ.get("CELLBLOCK_WHEEL_BINARY")
        if not binary:
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag(Path(binary).read_bytes())}"
        build_data["shared_scripts"][binary] = "cellblock"
        # Jupyter of the same environment finds the kernel there. A client alone has none.
        build_data["shared_data"][str(Path(self.root) / "kernelspec")] = "share/jupyter/kernels/cellblock"


def platform_tag(program: bytes) -> str:
    """The tag for what the program needs: the newest version of glibc that it names, or none where it is static."""
    if program[:4] != b"\x7fELF":
        raise SystemExit("error: the binary is no program for Linux")
    machine = _ELF_MACHINES[int.from_bytes(program[18:20], "little")]
    versions = {int(number) for number in re.findall(rb"\0GLIBC_2\.(\d+)(?=[\0.])", program)}
    if not versions:
        return f"manylinux_2_17_{machine}.musllinux_1_1_{machine}"
    return f"manylinux_2_{max(versions | {17})}_{machine}"
