"""Runs inside a session: processes, and files of any directory, for `_commands`. This file is sent as text, never imported.

A request is a dict; its answer is shown as a display, because only the interpreter of the session can show one: what a
process prints cannot be mistaken for it.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import selectors
import signal
import stat
import subprocess
import sys
import time
import zlib
from typing import Any

ANSWER = "application/vnd.cellblock.answer+json"
PART_BYTES = 4 << 20
# How long output is awaited after the end of a process, if another process still holds its pipe.
_GRACE_SECONDS = 0.1
# A pipe holds 64 KiB, or 1 MiB at most. A process in the background that writes without end is not read without end.
_MAX_LAST_READS = 32
_KEPT = "_cellblock_kept_output"
_MAX_KEPT = 4


class Answer:
    """What is shown to the host."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {ANSWER: json.dumps(self.fields)}


def answer(request: dict[str, Any]) -> None:
    """Does what is asked and shows what came of it. An `OSError` is an answer, too."""
    import builtins

    try:
        fields = _OPERATIONS[request.pop("do")](**request)
    except OSError as error:
        fields = {"errno": error.errno or errno.EIO, "path": _text(error.filename)}
    builtins.display(Answer(fields))  # type: ignore[attr-defined]


def run(
    argv: list[str],
    input: str | None,
    input_path: str | None,
    cwd: str | None,
    env: dict[str, str],
    timeout: float | None,
    max_output: int,
    key: str,
) -> dict[str, Any]:
    """Runs a process until it ends. The first bytes of its output are answered, the rest is kept for `output`."""
    if cwd is not None:
        os.listdir(cwd)  # a directory that is missing is not a program that is missing
    stdin: Any = subprocess.DEVNULL if input is None else subprocess.PIPE
    if input_path is not None:
        stdin = open(input_path, "rb")
        os.unlink(input_path)
    try:
        process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=_with_python({**os.environ, **env}),
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        code = 127 if isinstance(error, (FileNotFoundError, NotADirectoryError)) else 126
        said = f"{argv[0]}: {error.strerror}\n".encode("utf-8", "replace")
        return {**_ended(key, code, (b"", said, False), False), "start_error": error.errno or errno.EIO}
    finally:
        if input_path is not None:
            stdin.close()
    watch = _Watch(process, b"" if input is None else _unpacked(input), max_output)
    try:
        is_late = watch.wait(None if timeout is None else time.monotonic() + timeout)
    finally:
        if process.returncode is None:  # late, or the cell was interrupted
            _kill_group(process)
    code = process.wait()
    return _ended(key, code if code >= 0 else 128 - code, watch.finish(), is_late)


def _with_python(env: dict[str, str]) -> dict[str, str]:
    """The environment with a program `python` on its path, which many systems do not have: that of the session."""
    path = env.get("PATH") or os.defpath
    if not sys.executable or any(os.access(f"{place}/python", os.X_OK) for place in path.split(":")):
        return env
    place = "/tmp/.cellblock-bin"
    try:
        os.makedirs(place, exist_ok=True)
        if not os.path.lexists(f"{place}/python"):
            os.symlink(sys.executable, f"{place}/python")
    except OSError:
        return env
    return {**env, "PATH": f"{path}:{place}"}


class _Watch:
    """A running process: feeds its input, collects its output up to a limit, and waits for the end of this one process."""

    def __init__(self, process: subprocess.Popen[bytes], input: bytes, max_output: int) -> None:
        self._process = process
        self._input = memoryview(input)
        self._max = max_output
        self._is_cut = False
        self._selector = selectors.DefaultSelector()
        self._taken: dict[int, bytearray] = {}
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._taken[stream.fileno()] = bytearray()
            self._selector.register(stream, selectors.EVENT_READ)
        self._out, self._err = self._taken.values()
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            self._selector.register(process.stdin, selectors.EVENT_WRITE)
        try:
            self._end = os.pidfd_open(process.pid)
            self._selector.register(self._end, selectors.EVENT_READ)
        except OSError:
            self._end = -1

    def wait(self, deadline: float | None) -> bool:
        """Waits for the end of the process. Whether its time was over before."""
        tick = 0.01 if self._end < 0 else 10.0
        while self._process.poll() is None:
            left = tick if deadline is None else min(tick, deadline - time.monotonic())
            if left <= 0:
                return True
            self._turn(left)
        return False

    def finish(self) -> tuple[bytes, bytes, bool]:
        """The output: what is in the pipes already is taken, what a process in the background may still write is not awaited."""
        if self._end >= 0:
            self._selector.unregister(self._end)
            os.close(self._end)
        self._close_input()
        deadline = time.monotonic() + _GRACE_SECONDS
        while self._selector.get_map() and (left := deadline - time.monotonic()) > 0:
            self._turn(left)
        # On a busy machine the time may be over before anything was read: what is in the pipes is taken in any case.
        for _ in range(_MAX_LAST_READS):
            if not self._selector.get_map() or not self._turn(0):
                break
        for key in list(self._selector.get_map().values()):
            _leave_to_cat(key.fileobj)
        self._selector.close()
        return bytes(self._out), bytes(self._err), self._is_cut

    def _turn(self, seconds: float) -> int:
        ready = self._selector.select(seconds)
        for key, _ in ready:
            if key.fileobj is self._process.stdin:
                self._feed()
            elif key.fd != self._end:
                self._take(key.fileobj, key.fd)
        return len(ready)

    def _feed(self) -> None:
        assert self._process.stdin is not None
        try:
            self._input = self._input[os.write(self._process.stdin.fileno(), self._input[:65536]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._input = self._input[:0]
        if not self._input:
            self._close_input()

    def _close_input(self) -> None:
        stream = self._process.stdin
        if stream is not None and not stream.closed:
            self._selector.unregister(stream)
            stream.close()

    def _take(self, stream: Any, descriptor: int) -> None:
        try:
            data = os.read(descriptor, 65536)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(stream)
            stream.close()
            return
        taken = self._taken[descriptor]
        room = self._max - len(taken)
        taken += data[:room]
        self._is_cut |= len(data) > room


def _leave_to_cat(stream: Any) -> None:
    # A process in the background still holds the other end: without a reader, its next line would kill it.
    os.set_blocking(stream.fileno(), True)
    try:
        subprocess.Popen(["cat"], stdin=stream, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    except OSError:
        pass
    stream.close()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        process.kill()
    process.wait()


def _ended(key: str, code: int, written: tuple[bytes, bytes, bool], is_late: bool) -> dict[str, Any]:
    stdout, stderr, is_cut = written
    rest = {"stdout": stdout[PART_BYTES:], "stderr": stderr[PART_BYTES:]}
    if any(rest.values()):
        kept: Any = sys.modules.setdefault(_KEPT, {})  # type: ignore[arg-type]
        kept[key] = rest
        # That of a caller who was cancelled is never asked for.
        for oldest in list(kept)[:-_MAX_KEPT]:
            del kept[oldest]
    return {
        "exit_code": code,
        "stdout": _packed(stdout[:PART_BYTES]),
        "stderr": _packed(stderr[:PART_BYTES]),
        "is_cut": is_cut,
        "is_late": is_late,
        "more": {name: len(data) for name, data in rest.items()},
    }


def output(key: str, stream: str, offset: int) -> dict[str, Any]:
    """A further part of the output of a process."""
    kept: Any = sys.modules.get(_KEPT, {})
    return {"data": _packed(kept.get(key, {}).get(stream, b"")[offset : offset + PART_BYTES])}


def forget(key: str) -> dict[str, Any]:
    """The rest of the output of a process is not wanted any more."""
    kept: Any = sys.modules.get(_KEPT, {})
    kept.pop(key, None)
    return {}


def read(path: str, offset: int, length: int) -> dict[str, Any]:
    """A part of a file, and how long the file is."""
    with _opened(path, os.O_RDONLY) as file:
        file.seek(offset)
        return {"data": _packed(file.read(min(length, PART_BYTES))), "bytes": os.fstat(file.fileno()).st_size}


def write(path: str, offset: int, data: str, parents: bool) -> dict[str, Any]:
    """Writes a part of a file. The first part replaces what was there."""
    above = os.path.dirname(path)
    if parents and above:
        try:
            os.makedirs(above, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, "", above) from None
    with _opened(path, os.O_WRONLY | os.O_CREAT | (0 if offset else os.O_TRUNC)) as file:
        file.seek(offset)
        file.write(_unpacked(data))
    return {}


def _opened(path: str, flags: int) -> Any:
    # A named pipe is refused at once: opening one waits for its other end.
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind):
        os.close(descriptor)
        raise OSError(errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL, "", path)
    return open(descriptor, "rb" if flags == os.O_RDONLY else "wb", buffering=0, closefd=True)


def look(path: str, follow: bool) -> dict[str, Any]:
    """What is at a path."""
    return _entry(os.path.basename(path.rstrip("/")), os.stat(path) if follow else os.lstat(path))


def listing(path: str) -> dict[str, Any]:
    """What a directory holds."""
    entries: list[dict[str, Any]] = []
    with os.scandir(path) as found:
        for one in found:
            try:
                entries.append(_entry(one.name, one.stat()))
            except OSError:  # a link that leads nowhere, or to itself
                entries.append(_entry(one.name, one.stat(follow_symlinks=False)))
    return {"entries": entries}


def make(path: str, parents: bool) -> dict[str, Any]:
    """Makes a directory."""
    if parents:
        os.makedirs(path, exist_ok=True)
    else:
        os.mkdir(path)
    return {}


def remove(path: str, recursive: bool) -> dict[str, Any]:
    """Removes a file, a link, or a directory."""
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        os.unlink(path)
    elif recursive:
        import shutil

        shutil.rmtree(path)
    else:
        os.rmdir(path)
    return {}


def place(path: str | None) -> dict[str, Any]:
    """The path without links; without one, the working directory."""
    return {"path": os.getcwd() if path is None else os.path.realpath(path)}


def _entry(name: str, found: os.stat_result) -> dict[str, Any]:
    kind = "directory" if stat.S_ISDIR(found.st_mode) else "file" if stat.S_ISREG(found.st_mode) else "other"
    kind = "link" if stat.S_ISLNK(found.st_mode) else kind
    return {"name": _text(name), "kind": kind, "bytes": found.st_size, "modified": found.st_mtime, "mode": found.st_mode & 0o7777}


def _text(name: Any) -> str:
    return os.fsencode(name).decode("utf-8", "replace") if isinstance(name, (str, bytes)) else ""


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 1)).decode("ascii")


def _unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


_OPERATIONS: dict[str, Any] = {
    "run": run,
    "output": output,
    "forget": forget,
    "read": read,
    "write": write,
    "look": look,
    "list": listing,
    "make": make,
    "remove": remove,
    "place": place,
}
