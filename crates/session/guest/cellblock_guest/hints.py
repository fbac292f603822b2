"""Which wall an exception ran into, and what would help: one or two sentences, or nothing."""

from __future__ import annotations

import builtins
import sys
from errno import (
    EACCES,
    EAFNOSUPPORT,
    EAGAIN,
    EDQUOT,
    EFBIG,
    EHOSTUNREACH,
    EMFILE,
    ENETDOWN,
    ENETUNREACH,
    ENFILE,
    ENOENT,
    ENOMEM,
    ENOSPC,
    EPERM,
    EROFS,
)
from os import environ, getcwd
from os.path import dirname, isdir, join, normpath

from . import BUILTINS as __builtins__
from .distributions import distribution_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, TracebackType
    from typing import Any

NO_NETWORK = "this session has no network: hand the data in as a file in the workspace, or fetch it through a tool"
# Set by the host for a session that may reach something: what that is.
_NETWORK = "CELLBLOCK_NETWORK"
# Set by the host for a session that has no wall around the network: what fails there fails as outside.
_HOST_NETWORK = "CELLBLOCK_HOST_NETWORK"
# Set by the host for a session that sees the files of the host, as far as it may read them.
_HOST_FILES = "CELLBLOCK_HOST_FILES"
# How the guard at the way to the network begins when it refuses a host.
_REFUSED_HOST = "this session may not reach "
_LESS_MEMORY = "work on smaller parts, delete what is no longer needed, or raise the limit `memory`."
_MISSING_FILE = "the session sees only the files of its workspace, and this one is not among them."
# What opens a file that is there, beside names that end with `_open`, as libraries call the built-in function.
_OPENERS = frozenset(("open", "open_code", "FileIO", "fromfile"))
_Module = type(sys)
_NETWORK_ERRORS = (ENETUNREACH, EHOSTUNREACH, ENETDOWN, EAFNOSUPPORT)
# What the host calls the limits and walls of a session (`Obstacle` of the protocol).
_MEMORY = "memory"
_DISK = "disk"
_PROCESSES = "processes"
_OPEN_FILES = "open_files"
_NETWORK_RULES = "network"
_NETWORK_WALL = "no_network"
_FILE = "file"
_PACKAGE = "package"
_INSTALLABLE_PACKAGE = "installable_package"

# Where an error keeps the package that its code wanted to install: the error itself says what to do.
_WANTED = "__cellblock_wanted_package__"
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc", "/proc", "/sys", "/dev")


def has_network_wall() -> bool:
    """Whether something keeps the session from the network."""
    return not environ.get(_HOST_NETWORK)


def no_network() -> str:
    """Why something on the network cannot be reached."""
    allowed = environ.get(_NETWORK)
    if not allowed:
        return NO_NETWORK
    return f"this session may reach only {allowed[:500]}, by way of the proxy that http_proxy and https_proxy name"


def _offers_install() -> bool:
    """Whether the tool for packages is there."""
    return "install_packages" in vars(builtins)


def how_to_install() -> str:
    """Why code installs no packages, and how they come into this session."""
    if _offers_install():
        return "packages cannot be installed from a cell; ask for them with install_packages"
    return (
        "packages cannot be installed from a cell, and this session does not offer install_packages;"
        " open it in an environment that has them (`env`)"
    )


def note_wanted(error: BaseException, packages: list[str]) -> None:
    """Notes at an error which package its code wanted to install: without its version, the first of several."""
    for name in packages[:1]:
        for mark in "[=<>!~;@ ":
            name = name.partition(mark)[0]
        vars(error)[_WANTED] = name


def _package_obstacle() -> str:
    return _INSTALLABLE_PACKAGE if _offers_install() else _PACKAGE


def hint(error: BaseException, workspace: str) -> dict[str, str]:
    """What to say about an exception or what caused it (`hint`), what the host calls the limit or wall that it ran into
    (`obstacle`), and the package that has a missing module (`package`)."""
    seen = 0
    current: BaseException | None = error
    while current is not None and seen < 8:
        wanted = vars(current).get(_WANTED)
        if type(wanted) is str:
            return {"obstacle": _package_obstacle(), "package": wanted}
        found = _of(current, workspace)
        if found is not None:
            text, obstacle = found
            told = {"hint": text[0].upper() + text[1:]}
            if obstacle:
                told["obstacle"] = obstacle
            if obstacle in (_PACKAGE, _INSTALLABLE_PACKAGE) and isinstance(current, ModuleNotFoundError):
                told["package"] = distribution_of(_top_level(current))
            return told
        current = current.__cause__ or current.__context__
        seen += 1
    return {}


def _of(error: BaseException, workspace: str) -> tuple[str, str | None] | None:
    if _is_refused_host(error):
        return _of_network()
    if isinstance(error, MemoryError):
        return f"the session's memory limit was reached: {_LESS_MEMORY}", _MEMORY
    if isinstance(error, ModuleNotFoundError):
        return _of_module(_top_level(error))
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return _processes()
    if isinstance(error, (NameError, AttributeError)):
        return _similar(error)
    if isinstance(error, OSError):
        return _of_os_error(error, workspace)
    return None


def _of_network() -> tuple[str, str]:
    """Why something cannot be reached; where nothing can be, also the option that a session is opened with to reach it."""
    if environ.get(_NETWORK):
        return f"{no_network()}.", _NETWORK_RULES
    return f"{no_network()}, or open the session with `network`.", _NETWORK_WALL


def _top_level(error: ModuleNotFoundError) -> str:
    """The module of the missing name that an import begins with."""
    return (error.name or "").partition(".")[0]


def _of_module(module: str) -> tuple[str, str | None] | None:
    if not module or module in sys.modules:
        return None  # a part of a package that is there
    if module in sys.stdlib_module_names:
        return f"the module {module!r} is a part of Python that this interpreter was built without.", None
    obstacle = _package_obstacle()
    if module == "IPython":
        return "IPython is not part of this session; display(...) is there without an import.", obstacle
    package = distribution_of(module)
    what = f"the package {package!r}" if package == module else f"the package {package!r}, which has the module {module!r},"
    how = how_to_install()
    return f"{what} is not part of this session. {how[0].upper()}{how[1:]}.", obstacle


def _is_refused_host(error: BaseException) -> bool:
    """Whether it tells of the guard's answer, in the words of whichever library sent the request."""
    if not environ.get(_NETWORK):
        return False
    # urllib keeps the words of a response beside its arguments.
    parts = (*error.args, getattr(error, "reason", None))
    return any(type(part) is str and _REFUSED_HOST in part[:4000] for part in parts)


def _of_os_error(error: OSError, workspace: str) -> tuple[str, str | None] | None:
    number = error.errno
    path = error.filename if isinstance(error.filename, str) else None
    if number in _NETWORK_ERRORS or type(error).__name__ in ("gaierror", "herror"):
        return _of_network() if has_network_wall() else None
    if number == ENOMEM:
        return f"the session's memory limit was reached, of which shared memory may take half: {_LESS_MEMORY}", _MEMORY
    if number in (ENOSPC, EDQUOT, EFBIG):
        return "the session's disk limit was reached: delete files, write less, or raise the limit `disk`.", _DISK
    if number in (EMFILE, ENFILE):
        text = (
            f"the session's limit of open files ({_limit('RLIMIT_NOFILE')}) was reached: close files, best with `with open(...)`,"
            " or raise the limit `open_files`."
        )
        return text, _OPEN_FILES
    if number == EAGAIN and path is None and "temporarily unavailable" in str(error) and _while_forking(error):
        return _processes()
    if path is not None and number == ENOENT:
        return _of_missing(error, path, workspace)
    if path is not None and path[:1] == "/":
        return _of_path(number, path, workspace)
    if number == EPERM and path is None:
        return "the sandbox does not permit this system call.", None
    return None


def _of_missing(error: OSError, path: str, workspace: str) -> tuple[str, str] | None:
    """About a path that leads nowhere, where it can be meant for a file of the host's."""
    if environ.get(_HOST_FILES) or error.filename2 is not None:
        return None
    full = normpath(join(getcwd(), path))
    if _is_under(full, (workspace,)):
        return (_MISSING_FILE, _FILE) if isdir(dirname(full)) and _while_opening(error) else None
    if path[:1] != "/" or _is_under(full, ("/tmp", *_SYSTEM)):
        return None
    return f"files of the host are not visible in this session; put the file into the workspace, which is {workspace}.", _FILE


def _of_path(number: int | None, path: str, workspace: str) -> tuple[str, None] | None:
    if _is_under(path, (workspace, "/tmp")):
        return None
    if number in (EACCES, EROFS, EPERM):
        text = f"only {workspace} and /tmp are writable in this session; {path} is outside. Use a path relative to the workspace."
        return text, None
    return None


def _is_under(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _while_forking(error: BaseException) -> bool:
    code = _last_code(error)
    return code is not None and ("fork" in code.co_names or code.co_name == "_execute_child")


def _while_opening(error: BaseException) -> bool:
    """Whether it was raised by a call that opens a file, and not by another one about a path, such as `os.rmdir`."""
    last = _last_traceback(error)
    if last is None:
        return False
    from dis import get_instructions, hasname

    code = last.tb_frame.f_code
    places = _places(code)
    line, end_line, column, end_column = places[last.tb_lasti // 2]
    for step in get_instructions(code):
        first, last_line, begin, end = places[step.offset // 2]
        is_inside = (line, column) <= (first, begin) and (last_line, end) <= (end_line, end_column)
        if is_inside and step.opcode in hasname and (step.argval in _OPENERS or str(step.argval).endswith("_open")):
            return True
    return False


def _places(code: CodeType) -> list[tuple[int, int, int, int]]:
    """The source of each step of a code: first line, last line, first column, last column. What is not known is 0."""
    if sys.version_info >= (3, 11):
        return [(line or 0, end or 0, column or 0, last or 0) for line, end, column, last in code.co_positions()]
    return [(line or 0, line or 0, 0, 0) for start, end, line in code.co_lines() for _ in range(start, end, 2)]


def _last_code(error: BaseException) -> CodeType | None:
    """The code that raised it."""
    last = _last_traceback(error)
    return None if last is None else last.tb_frame.f_code


def _last_traceback(error: BaseException) -> TracebackType | None:
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback


def _processes() -> tuple[str, str]:
    text = (
        "the session's limit of processes and threads was reached: end or join some, use fewer workers,"
        " or raise the limit `processes`."
    )
    return text, _PROCESSES


def _limit(name: str) -> str:
    import resource

    soft = resource.getrlimit(getattr(resource, name))[0]
    return str(soft) if soft >= 0 else "unlimited"


def _similar(error: Any) -> tuple[str, None] | None:
    """`Did you mean …`, for names in reach and for names of modules."""
    name = getattr(error, "name", None)
    if not isinstance(name, str) or len(name) > 40:
        return None
    if isinstance(error, NameError):
        last = _last_traceback(error)
        if last is None:
            return None
        frame = last.tb_frame
        candidates = [*frame.f_locals, *frame.f_globals, *frame.f_builtins]
    elif type(error.obj) is _Module:
        candidates = list(vars(error.obj))
    else:
        return None
    from difflib import get_close_matches

    words = [word for word in candidates if isinstance(word, str) and word[:2] != "__" and abs(len(word) - len(name)) < 3]
    close = get_close_matches(name, words[:5000], 1, 0.75)
    return (f"did you mean {close[0]!r}?", None) if close else None
