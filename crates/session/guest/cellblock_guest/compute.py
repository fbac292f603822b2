"""`compute`: one expression, evaluated in a throw-away fork of the session, within limits of its own.

`last_result` is the value of the last expression that succeeded; `results[1]`, `results[2]` … are all of them in order, counted
from one, and `results[-1]` is the last. They are kept pickled, and only ever unpickled in a fork.
"""

from __future__ import annotations

import os
import sys
from time import monotonic

from . import BUILTINS as __builtins__
from . import expressions, processes, reprs, wire
from .expressions import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn, TypeAlias

    Kept: TypeAlias = bytes | str  # a pickled result, or the reason why there is none

_RESULT_LIMIT = 1_000_000
_MESSAGE_LIMIT = 2_000
_KEPT_BYTES = 16 << 20  # of one result
_KEPT_COUNT = 100
_ELSEWHERE = "use execute_python_code for work of this size"


class Compute:
    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._kept: list[Kept] = []

    def answer(self, source: str, seconds: float, memory: int) -> dict[str, str | None]:
        """`{"result", "error"}`, one of them None. Nothing that the expression does stays."""
        try:
            expressions.prepare(source)
            reader, writer = os.pipe()
        except Exception as error:
            return _failure(type(error).__name__, str(error))
        try:
            pid = processes.side_fork()
            if pid == 0:
                _child(writer, source, self._namespace, self._kept, seconds, memory)
        except OSError as error:
            os.close(writer)
            os.close(reader)
            return _failure("OSError", f"no process could be started for compute: {error.strerror}")
        os.close(writer)
        data, complete = _read_all(reader, monotonic() + seconds)
        os.close(reader)
        if not complete:
            processes.kill(pid)
        processes.finish(pid)
        if not complete:
            return _failure("TimeoutError", f"the expression took longer than {seconds:g} s and was stopped; {_ELSEWHERE}")
        return self._keep(data)

    def forget(self) -> None:
        self._kept.clear()

    def _keep(self, data: bytes) -> dict[str, str | None]:
        size = int.from_bytes(data[:4], "little")
        if len(data) < 4 + size or not size:
            return _failure("RuntimeError", f"the expression ended its process: it crashed or ran out of memory; {_ELSEWHERE}")
        answer = wire.decode(data[4 : 4 + size])
        reason = answer.pop("unkept", None)
        if answer["error"] is None:
            self._kept.append(data[4 + size :] if reason is None else reason)
            for index in range(len(self._kept) - _KEPT_COUNT):
                self._kept[index] = "too long ago"
        return answer


def _child(writer: int, source: str, namespace: dict[str, Any], kept: list[Kept], seconds: float, memory: int) -> NoReturn:
    """The life of the fork. It never returns to the loop."""
    try:
        _limit(seconds, memory)
        pickled = b""
        answer: dict[str, Any] = {"result": None, "error": None}
        try:
            value = _evaluate(source.strip(), namespace, kept)
            answer["result"] = reprs.cut(str(value), _RESULT_LIMIT)
            pickled, answer["unkept"] = _pickle(value)
        except MemoryError:
            value = None
            answer = _failure("MemoryError", f"the expression needs more than {memory >> 20} MB; {_ELSEWHERE}")
        except SyntaxError as error:
            answer = _failure("SyntaxError", _syntax_message(error, source.strip()))
        except Refused as refusal:
            answer = _failure(refusal.kind, str(refusal))
        except BaseException as error:
            answer = _failure(type(error).__name__, _message(error))
        body = wire.encode(answer) + pickled
        while body:
            body = body[os.write(writer, body) :]
    finally:
        os._exit(0)


def _limit(seconds: float, memory: int) -> None:
    """Limits of this process alone: memory beyond what the session holds, CPU time, and no writing to files."""
    import resource

    output = os.open("/dev/null", os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    with open("/proc/self/statm", "rb") as file:
        held = int(file.read().split()[5]) * resource.getpagesize()
    _lower(resource.RLIMIT_DATA, held + memory)
    _lower(resource.RLIMIT_CPU, int(seconds) + 2)
    _lower(resource.RLIMIT_FSIZE, 0)
    processes.forbid_changes()
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)  # exact digits are what compute is for


def _lower(which: int, limit: int) -> None:
    import resource

    soft, hard = resource.getrlimit(which)
    if soft == resource.RLIM_INFINITY or limit < soft:
        resource.setrlimit(which, (limit, hard))


def _evaluate(source: str, namespace: dict[str, Any], kept: list[Kept]) -> Any:
    code, names = expressions.compile_expression(source)
    results = _Results(kept)
    extra = {"last_result": lambda: results[len(kept)], "results": lambda: results}
    return eval(code, expressions.scope(names, namespace, extra))


class _Results:
    """`results[n]`: the results so far, counted from one; negative numbers count from the end."""

    def __init__(self, kept: list[Kept]) -> None:
        self._kept = kept

    def __len__(self) -> int:
        return len(self._kept)

    def __getitem__(self, number: int) -> Any:
        import pickle

        count = len(self._kept)
        if not count:
            raise Refused("LookupError", "there is no earlier result in this session")
        index = number - 1 if number > 0 else count + number
        if number == 0 or not 0 <= index < count:
            raise Refused("IndexError", f"there is no result {number}; there are results[1] to results[{count}]")
        item = self._kept[index]
        if isinstance(item, str):
            raise Refused("LookupError", f"result {index + 1} was not kept: {item}")
        return pickle.loads(item)


def _pickle(value: Any) -> tuple[bytes, str | None]:
    import pickle

    try:
        data = pickle.dumps(value, 5)
    except Exception:
        return b"", f"a {type(value).__name__} cannot be copied from one compute to the next"
    if len(data) > _KEPT_BYTES:
        return b"", f"it is larger than {_KEPT_BYTES >> 20} MB"
    return data, None


def _read_all(fd: int, deadline: float) -> tuple[bytes, bool]:
    """What comes until the other end is closed, and whether it was before the deadline."""
    from select import POLLIN, poll

    waiter = poll()
    waiter.register(fd, POLLIN)
    chunks: list[bytes] = []
    while True:
        left = deadline - monotonic()
        if left <= 0 or not waiter.poll(int(left * 1000) + 1):
            return b"".join(chunks), False
        chunk = os.read(fd, 1 << 20)
        if not chunk:
            return b"".join(chunks), True
        chunks.append(chunk)


def _failure(kind: str, message: str) -> dict[str, Any]:
    text = f"PythonError: {kind}: {message}" if message else f"PythonError: {kind}"
    return {"result": None, "error": text}


def _message(error: BaseException) -> str:
    try:
        return reprs.cut(str(error), _MESSAGE_LIMIT)
    except Exception:
        return "<exception str() failed>"


def _syntax_message(error: SyntaxError, source: str) -> str:
    """The message with line and column, the line itself, and a caret under the place."""
    lines = source.split("\n")
    line = error.lineno or 1
    text = lines[line - 1] if line <= len(lines) else ""
    column = error.offset or len(text) + 1  # 0 means: after the end
    if len(text) > 200:
        return f"{error.msg} (line {line}, column {column})"
    return f"{error.msg} (line {line}, column {column})\n    {text}\n    {' ' * (column - 1)}^"
