"""Finding the program `cellblock`, and checking that it is new enough."""

from __future__ import annotations

import os
import sys

from ._version import __version__
from .errors import BinaryError

_NAME = "cellblock"
_checked: set[str] = set()


def find_binary(given: str | os.PathLike[str] | None = None) -> str:
    """The path of the program: the one given, else `CELLBLOCK_BIN`, else the one of this package, else the one on `PATH`.

    Raises `BinaryError` with what to do when there is none, or when it is older than this package needs.
    """
    named = os.fspath(given) if given is not None else os.environ.get("CELLBLOCK_BIN")
    if named:
        if not _is_program(named):
            source = "the argument `binary`" if given is not None else "the variable CELLBLOCK_BIN"
            raise BinaryError(f"{source} names {named!r}, which is no program that can be started", "binary")
        return _new_enough(named)
    for path in _places():
        if _is_program(path):
            return _new_enough(path)
    raise BinaryError(_missing(), "binary")


def _places() -> list[str]:
    """Where installers put programs of packages, best first, then `PATH`."""
    import sysconfig

    directories = [sysconfig.get_path("scripts")]
    user_scheme = sysconfig.get_preferred_scheme("user")
    directories.append(sysconfig.get_path("scripts", user_scheme))
    # `pip install --target DIR` puts programs into DIR/bin, beside the package.
    package = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    directories.append(os.path.join(os.path.dirname(package), "bin"))  # noqa: PTH118, PTH120
    directories += os.environ.get("PATH", os.defpath).split(os.pathsep)
    return [os.path.join(directory, _NAME) for directory in directories if directory]  # noqa: PTH118


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113


def _missing() -> str:
    if not sys.platform.startswith("linux"):
        return (
            f"sessions need Linux, and this is {sys.platform}: the package holds no program for it. "
            "Sessions of a server on another machine can be used: `Session(host=Remote(url, token))`"
        )
    return (
        "the program `cellblock` is not there: this wheel was built without it, or its scripts were not installed. "
        "Install the wheel for your machine (`pip install --force-reinstall cellblock`), or set CELLBLOCK_BIN to its path"
    )


def _new_enough(path: str) -> str:
    if path in _checked:
        return path
    found = _version_of(path)
    if _numbers(found)[:2] != _numbers(__version__)[:2]:
        raise BinaryError(
            f"{path} is version {found}, and this package needs {__version__}; "
            "install both from one wheel (`pip install --upgrade cellblock`), or set CELLBLOCK_BIN to a program that fits",
            "version",
        )
    _checked.add(path)
    return path


def _version_of(path: str) -> str:
    import subprocess

    try:
        told = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
        raise BinaryError(f"{path} does not start: {error}", "binary") from None
    words = told.stdout.split()
    if told.returncode != 0 or len(words) != 2 or words[0] != _NAME:
        said = (told.stdout + told.stderr).strip()[:300]
        raise BinaryError(f"{path} is not the program cellblock: `--version` said {said!r}", "binary")
    return words[1]


def _numbers(version: str) -> list[int]:
    parts = version.split("-")[0].split("+")[0].split(".")
    return [int(part) if part.isdigit() else 0 for part in [*parts, "0", "0"]][:3]
