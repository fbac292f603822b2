"""What a session may be given: limits, network, packages, a container."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


class Limits:
    """What a session may use. Sizes are bytes or texts (`"512MB"`), times are seconds or texts (`"5min"`).

    What is not given has its default: memory 2 GiB, wall 30 s a cell, 64 processes, all processors, 1024 open files, 1 GiB of new
    data on disk, 1 MB kept of each stream and 64 MB spilled, idle 30 min, 10 checkpoints in a quarter of the memory.
    """

    __slots__ = ("_given",)

    def __init__(
        self,
        *,
        memory: int | str | None = None,
        wall: float | str | None = None,
        processes: int | None = None,
        cpus: float | None = None,
        open_files: int | None = None,
        disk: int | str | None = None,
        output_kept: int | str | None = None,
        output_spilled: int | str | None = None,
        idle: float | str | None = None,
        checkpoints: int | None = None,
        checkpoint_memory: int | str | None = None,
    ) -> None:
        given = {
            "memory": memory,
            "wall": wall,
            "processes": processes,
            "cpus": cpus,
            "open_files": open_files,
            "disk": disk,
            "output_kept": output_kept,
            "output_spilled": output_spilled,
            "idle": idle,
            "checkpoints": checkpoints,
            "checkpoint_memory": checkpoint_memory,
        }
        self._given = {name: value for name, value in given.items() if value is not None}

    def __repr__(self) -> str:
        return f"Limits({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"

    def as_json(self) -> dict[str, Any]:
        """The limits that were given."""
        return dict(self._given)


class Network:
    """What a session may reach: hosts such as `"example.org"`, `"*.example.org:8080"`, `"tcp://db.example.org:5432"`.

    `credentials` are headers that are put on requests outside the session, so that its code never sees the secrets:
    `"api.example.org Authorization: Bearer env:TOKEN"`. docs/network.md has all forms.
    """

    __slots__ = ("credentials", "rules")

    def __init__(self, *rules: str, credentials: tuple[str, ...] | list[str] = ()) -> None:
        self.rules = list(rules)
        self.credentials = list(credentials)

    def __repr__(self) -> str:
        return f"Network({', '.join(map(repr, self.rules))})"


class Env:
    """The packages of a session: `Env("pandas", "httpx")` names them, `Env.named("web")` an environment of `cellblock env`,
    `Env.file("requirements.txt")` a file that lists them.

    What is not installed yet is installed once and then shared by all sessions that ask for the same.
    """

    __slots__ = ("_packages", "_word")

    def __init__(self, *packages: str) -> None:
        if not packages:
            raise ValueError("Env: name at least one package, such as Env('pandas')")
        for package in packages:
            if "\n" in package or package.startswith("-"):
                raise ValueError(f"Env: {package!r} is no package")
        self._packages: tuple[str, ...] = packages
        self._word: str | None = None

    @classmethod
    def named(cls, name: str) -> Env:
        """An environment that `cellblock env create NAME …` has made, or `"default"`."""
        made = cls.__new__(cls)
        made._packages, made._word = (), name
        return made

    @classmethod
    def file(cls, path: str | os.PathLike[str]) -> Env:
        """The packages of a `requirements.txt`, a `pyproject.toml`, or the header of a script."""
        made = cls.__new__(cls)
        made._packages, made._word = (), os.path.abspath(path)  # noqa: PTH100
        return made

    def __repr__(self) -> str:
        return f"Env({', '.join(map(repr, self._packages))})" if self._packages else f"Env.named({self._word!r})"

    def word(self) -> str:
        """What `open` is told: a name, or the path of a file that lists the packages."""
        return self._word if self._word is not None else _requirements_file(self._packages)


class Container:
    """A session in a container of Docker instead of behind the walls of this machine. It has no checkpoints."""

    __slots__ = ("image",)

    def __init__(self, image: str = "python:3.12") -> None:
        self.image = image

    def __repr__(self) -> str:
        return f"Container({self.image!r})"


def _requirements_file(packages: tuple[str, ...]) -> str:
    """A file with these packages that stays as long as this process: the same packages share one."""
    import atexit
    import tempfile
    from pathlib import Path

    path = _files.get(packages)
    if path is None:
        descriptor, path = tempfile.mkstemp(prefix="cellblock-", suffix=".txt")
        with os.fdopen(descriptor, "w") as file:
            file.write("\n".join(packages) + "\n")
        _files[packages] = path
        atexit.register(Path(path).unlink, missing_ok=True)
    return path


_files: dict[tuple[str, ...], str] = {}

LimitsLike = Limits | Mapping[str, Any] | None
NetworkLike = Network | str | list[str] | tuple[str, ...] | None
EnvLike = Env | str | None


def limits_json(given: Limits | Mapping[str, Any]) -> dict[str, Any]:
    """Limits as `open` wants them."""
    return given.as_json() if isinstance(given, Limits) else dict(given)


def network_from(given: Network | str | list[str] | tuple[str, ...]) -> Network:
    """Rules in any of the forms that they may be given in."""
    if isinstance(given, Network):
        return given
    return Network(given) if isinstance(given, str) else Network(*given)
