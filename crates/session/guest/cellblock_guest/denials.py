"""Refusals that say why. The walls are the kernel's; here only the exceptions of those who run into them get better words."""

from __future__ import annotations

import os

from . import BUILTINS as __builtins__
from . import hooks
from .hints import has_network_wall, how_to_install, no_network, note_wanted
from .libraries import modules
from .programs import is_install, wanted_packages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def install() -> None:
    """Explain refusals from now on. The libraries concerned are wrapped when they are imported."""
    hooks.after_import("socket", _explain_sockets)
    hooks.after_import("subprocess", _explain_installs)
    _explain_system()


def _explain_sockets() -> None:
    socket: Any = modules["socket"]
    for name in ("connect", "sendto"):
        setattr(socket.socket, name, _explained_method(getattr(socket.socket, name), socket.AF_UNIX))
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr"):
        setattr(socket, name, _explained(getattr(socket, name)))


def _explained_method(original: Callable[..., Any], unix: int) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        try:
            return original(self, *args)
        except OSError as error:
            if self.family == unix or isinstance(error, (BlockingIOError, InterruptedError)):
                raise
            raise _with_reason(error) from None

    return _disguise(method, original)


def _explained(original: Callable[..., Any]) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except OSError as error:
            raise _with_reason(error) from None

    return _disguise(function, original)


def _with_reason(error: OSError) -> OSError:
    """The same type and errno, and a message that ends with the reason."""
    if not has_network_wall() or isinstance(error, ConnectionRefusedError):
        return error  # a session's own addresses can be reached, but nothing may listen there
    reason = no_network()
    if error.errno is None or reason in str(error):
        return error
    return type(error)(error.errno, f"{error.strerror}; {reason}")


def _explain_installs() -> None:
    popen = modules["subprocess"].Popen
    original = popen.__init__

    def __init__(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        if _installs(args):
            self.returncode = 1  # `__del__` asks for it
            self._child_created = False
            raise _refused_install(args)
        original(self, args, *rest, **options)

    popen.__init__ = _disguise(__init__, original)


def _explain_system() -> None:
    original = os.system

    def system(command: Any) -> int:
        if _installs(command):
            raise _refused_install(command)
        return original(command)

    os.system = _disguise(system, original)


def _installs(command: Any) -> bool:
    return is_install(_words(command)[:6])


def _refused_install(command: Any) -> PermissionError:
    error = PermissionError(how_to_install())
    note_wanted(error, wanted_packages(_words(command)))
    return error


def _words(command: Any) -> list[str]:
    if isinstance(command, str):
        return command.split()
    if isinstance(command, (list, tuple)):
        return [word for word in command[:50] if isinstance(word, str)]
    return []


def _disguise(function: Callable[..., Any], original: Any) -> Callable[..., Any]:
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        value = getattr(original, name, None)
        if isinstance(value, str):
            setattr(function, name, value)
    vars(function)["__wrapped__"] = original
    return function
