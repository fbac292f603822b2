"""The option of this package that helps against the limit or the wall that a cell ran into."""

from __future__ import annotations

from typing import Any

_LIMITS = {
    "memory limit was reached": 'memory="8GB"',
    "disk limit was reached": 'disk="10GB"',
    "limit of processes and threads": "processes=256",
    "limit of open files": "open_files=8192",
}
_NETWORK = ("session has no network", "session may reach only")


def hints(status: str, error: dict[str, Any] | None) -> list[str]:
    """What to say about a cell that did not succeed: the session's own hint, and the option that helps."""
    if error is None:
        return ["give the cell more time with timeout=600"] if status == "timeout" else []
    package = _missing_package(error)
    if package is not None:
        told = f"`{package}` is not part of this session"
        return [f'{told}: open it with env=Env("{package}"), where the package has the name of its module']
    hint = error.get("hint") or ""
    option = _option(error["type"], hint)
    helps = [f"open the session with {option}"] if option else []
    return [hint, *helps] if hint else helps


def _option(kind: str, hint: str) -> str | None:
    limits = {"MemoryLimit": 'memory="8GB"', "DiskLimit": 'disk="10GB"'}
    limit = limits.get(kind) or next((limit for words, limit in _LIMITS.items() if words in hint), None)
    if limit:
        return f"limits=Limits({limit}) to allow more"
    return 'network=Network("HOST") to let it reach a host' if any(words in hint for words in _NETWORK) else None


def _missing_package(error: dict[str, Any]) -> str | None:
    """The package of `No module named 'package.module'`. Code can make the error say anything: only a plain name is repeated."""
    before, found, rest = error["value"].partition("No module named '")
    name: str = rest.partition("'")[0].partition(".")[0]
    is_plain = name.isascii() and name.isidentifier() and len(name) <= 60
    return name if error["type"] == "ModuleNotFoundError" and found and not before and is_plain else None
