"""Memory of processes and of all that they started."""

from __future__ import annotations

import os

from drivers.base import Cannot


def of(roots: list[int]) -> int:
    """The proportional share (PSS) of these processes and all below them, in bytes."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            parent = _field(int(name), "status", "PPid:")
            if parent is not None:
                children.setdefault(parent, []).append(int(name))
    total, open_ = 0, list(roots)
    while open_:
        pid = open_.pop()
        try:
            share = _field(pid, "smaps_rollup", "Pss:")
        except PermissionError:
            raise Cannot("its processes may not be looked at by this user; run it as root") from None
        total += (share or 0) * 1024
        open_ += children.get(pid, [])
    return total


def _field(pid: int, file: str, name: str) -> int | None:
    try:
        with open(f"/proc/{pid}/{file}") as lines:
            for line in lines:
                if line.startswith(name):
                    return int(line.split()[1])
    except PermissionError:
        raise
    except OSError:  # it has ended
        pass
    return None
