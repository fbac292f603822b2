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
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")


def hints(status: str, error: dict[str, Any] | None) -> list[str]:
    """What to say about a cell that did not succeed: the session's own hint, and the option that helps."""
    if error is None:
        return ["give the cell more time with timeout=600"] if status == "timeout" else []
    obstacle = error.get("obstacle")
    hint = error.get("hint") or ""
    if obstacle in ("package", "installable_package"):
        module, package = _missing(error)
        named = module or package
        if named is None:
            return [hint] if hint else []
        what = f"`{named}`" if package in (named, None) else f"`{named}`, a module of the package {package},"
        return [f'{what} is not part of this session: open it with env=Env("{package or named}")']
    if obstacle == "file":
        put = "put the file there with `files.upload(path)`, or open the session with workspace=DIR"
        return [f"the session sees only the files of its workspace: {put}"]
    if obstacle in ("network", "no_network"):
        opened = 'open the session with network=Network("HOST") to let it reach a host'
        return [f"this session has no network: {opened}"] if obstacle == "no_network" else [*filter(None, [hint]), opened]
    helps = [f"open the session with limits=Limits({_LIMITS[obstacle]}) to allow more"] if obstacle in _LIMITS else []
    return [*filter(None, [hint]), *helps]


def _missing(error: dict[str, Any]) -> tuple[str | None, str | None]:
    """The module that is missing, and its package. Code can make the error say anything: only plain names are repeated."""
    before, found, rest = error["value"].partition("No module named '")
    module = rest.partition("'")[0].partition(".")[0]
    package = error.get("package")
    return (
        module if found and not before and _is_plain(module) else None,
        package if isinstance(package, str) and _is_plain(package) else None,
    )


def _is_plain(name: str) -> bool:
    """Whether a text can be the name of a module or of a package, and nothing else."""
    return name.isascii() and name[:1] not in "-." and set(name) <= _PLAIN and 0 < len(name) <= 60
