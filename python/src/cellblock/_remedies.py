"""The option of this package that helps against the limit or the wall that a cell ran into."""

from __future__ import annotations

from typing import Any

# The option that moves a limit, by the obstacle that the error of a cell names.
_LIMITS = {
    "memory": 'memory="8GB"',
    "disk": 'disk="10GB"',
    "processes": "processes=256",
    "open_files": "open_files=8192",
}


def hints(status: str, error: dict[str, Any] | None) -> list[str]:
    """What to say about a cell that did not succeed: the session's own hint, and the option that helps."""
    if error is None:
        return ["give the cell more time with timeout=600"] if status == "timeout" else []
    package = _missing_package(error)
    if package is not None:
        told = f"`{package}` is not part of this session"
        return [f'{told}: open it with env=Env("{package}"), where the package has the name of its module']
    hint = error.get("hint") or ""
    option = _option(error.get("obstacle"))
    helps = [f"open the session with {option}"] if option else []
    return [hint, *helps] if hint else helps


def _option(obstacle: str | None) -> str | None:
    if obstacle in _LIMITS:
        return f"limits=Limits({_LIMITS[obstacle]}) to allow more"
    return 'network=Network("HOST") to let it reach a host' if obstacle == "network" else None


def _missing_package(error: dict[str, Any]) -> str | None:
    """The package of `No module named 'package.module'`. Code can make the error say anything: only a plain name is repeated."""
    before, found, rest = error["value"].partition("No module named '")
    name: str = rest.partition("'")[0].partition(".")[0]
    is_plain = name.isascii() and name.isidentifier() and len(name) <= 60
    return name if error["type"] == "ModuleNotFoundError" and found and not before and is_plain else None
