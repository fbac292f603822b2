"""What can be asked of a session, as plans. `Session` and `AsyncSession` carry the same ones out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._transfer import copy_in, copy_in_file, copy_out, copy_out_file
from .errors import Refused, WrongValue
from .result import Result

# Imported where they are used: importing the package should cost little.
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ._core import Core
    from ._plans import Plan
    from .records import Checkpoint, File, Inspection, Undone, Variable

# Contents of files travel in parts of this size. As base64 they fit into a line, and a part does not hold others up for long.
PART_BYTES = 4 << 20
# `put_file` takes a whole file in one line.
MAX_PUT_BYTES = 11_900_000
_EXPORT = "_cellblock_export"


def open_session(core: Core) -> Plan[None]:
    """Opens it and tells it its tools."""
    yield {"op": "open", **core.open_fields}
    if core.tools:
        yield {"op": "tools", "tools": [one.spec() for one in core.tools.values()]}


def close_session() -> Plan[None]:
    yield {"op": "close"}


def set_tools(core: Core, given: Iterable[Any]) -> Plan[None]:
    from .tools import tools_from

    made = tools_from(given)
    yield {"op": "tools", "tools": [one.spec() for one in made.values()]}
    core.tools = made


def seed(core: Core, variables: Mapping[str, Any]) -> Plan[None]:
    """Binds variables: as seeds where JSON is exact, else by a cell of literals."""
    from base64 import b64encode

    from ._seeds import seeds_from

    tables = {name: value for name, value in variables.items() if _is_array(value)}
    seeds = seeds_from({name: value for name, value in variables.items() if name not in tables})
    if seeds.variables:
        yield {"op": "seed", "variables": seeds.variables}
    if seeds.code:
        yield from _run_own(core, seeds.code)
    for name, value in tables.items():
        from .arrays import loading_code, to_bytes

        yield {"op": "seed", "variables": {_EXPORT: {"$bytes": b64encode(to_bytes(value)).decode("ascii")}}}
        yield from _run_own(core, f"{name} = {loading_code(value, _EXPORT)}\ndel {_EXPORT}")


def get(core: Core, name: str, kind: Any) -> Plan[Any]:
    """A variable as a value of this process."""
    from ._literals import read_repr
    from ._types import convert
    from .arrays import is_array_type

    if is_array_type(kind):
        return (yield from _get_array(core, name, kind))
    try:
        looked = yield {"op": "inspect", "name": name}
    except Refused as error:
        raise (KeyError(name) if error.code == "refused" else error) from None
    text = looked["repr"]
    if "… (" in text[-60:]:  # it was cut
        contents = yield from _exported(core, f"__import__('json').dump({name}, open({_EXPORT!r}, 'w'))")
        return convert(_read_json(contents), kind, name)
    return convert(read_repr(text), kind, name)


def _read_json(contents: bytes) -> Any:
    import json

    try:
        return json.loads(contents)
    except (ValueError, RecursionError) as error:
        raise WrongValue(f"what the session wrote is no JSON that can be read here: {error}", "value") from None


def _get_array(core: Core, name: str, kind: Any) -> Plan[Any]:
    from .arrays import from_bytes, saving_code

    contents = yield from _exported(core, saving_code(kind, name, _EXPORT))
    return from_bytes(contents, kind)


def _exported(core: Core, code: str) -> Plan[bytes]:
    """What code writes into a file, in a fork: the session itself and its history stay as they are."""
    forked = yield {"op": "fork"}
    fork = forked["session"]
    try:
        result = Result((yield {"op": "run", "session": fork, "code": code}))
        if not result.ok:
            raise WrongValue(f"the value cannot cross: {result.failure_text().splitlines()[-1]}", "value")
        return (yield from _read_parts(_EXPORT, {"session": fork}))
    finally:
        yield {"op": "close", "session": fork}


def _run_own(core: Core, code: str) -> Plan[None]:
    raw = yield {"op": "run", "code": code}
    core.note_result(raw)
    Result(raw).check()


def variables() -> Plan[list[Variable]]:
    from .records import Variable

    return [Variable(**item) for item in (yield {"op": "vars"})]


def inspect(name: str) -> Plan[Inspection]:
    from .records import Inspection

    looked = yield {"op": "inspect", "name": name}
    return Inspection(looked["type"], looked["repr"], looked["doc"], dict(looked["mime"]))


def compute(expression: str, why: str) -> Plan[str]:
    answer = yield {"op": "compute", "code": expression, "description": why}
    if answer["error"] is not None:
        raise Refused(answer["error"], "compute")
    return str(answer["result"])


def undo(core: Core, cells: int, to: Checkpoint | str | int | None) -> Plan[Undone]:
    from .records import Undone, file_changes, variable_changes

    if to is not None:
        cells = core.cells_after(_cell_of(core, to))
        if cells == 0:
            return Undone(core.last_cell(), variable_changes(_NO_VARIABLES), file_changes(_NO_FILES))
    answer = yield {"op": "undo", "n": cells}
    core.note_undo(answer["cell"])
    changes = variable_changes(answer["variables"]), file_changes(answer["files"])
    return Undone(answer["cell"], *changes, tuple(answer.get("not_restored", ())))


_NO_VARIABLES: dict[str, list[Any]] = {"added": [], "changed": [], "removed": []}
_NO_FILES: dict[str, list[Any]] = {"created": [], "changed": [], "deleted": []}


def _cell_of(core: Core, to: Checkpoint | str | int) -> int:
    if isinstance(to, int):
        return to
    if not isinstance(to, str):
        return to.cell
    cell = core.named_cell(to)
    if cell is None:
        raise Refused(f"there is no checkpoint {to!r}: it was never made, or it was taken back", "not_found")
    return cell


def name_checkpoint(core: Core, name: str) -> Plan[Checkpoint]:
    from .records import Checkpoint

    if not name:
        raise Refused("a checkpoint needs a name", "invalid")
    cell = core.last_cell()
    listed = yield {"op": "checkpoints"}
    core.name_checkpoint(name, cell)
    # A cell that changed nothing shares the checkpoint of the one before it.
    found = next((item for item in listed if item["cell"] <= cell), None)
    if found is None:
        return Checkpoint(cell, name)
    return Checkpoint(cell, name, found["at"], found["bytes"])


def checkpoints(core: Core) -> Plan[list[Checkpoint]]:
    from .records import Checkpoint

    listed = yield {"op": "checkpoints"}
    return [Checkpoint(item["cell"], core.names_of(item["cell"]), item["at"], item["bytes"]) for item in listed]


def fork(core: Core) -> Plan[Core]:
    answer = yield {"op": "fork"}
    made = core.forked(answer["session"])
    made.not_copied = list(answer.get("not_copied", ()))
    return made


def reset() -> Plan[None]:
    yield {"op": "reset"}


def interrupt() -> Plan[None]:
    yield {"op": "interrupt"}


def read_output(cell: int, stream: str, offset: int, length: int | None) -> Plan[str]:
    fields = {"op": "read_output", "cell": cell, "stream": stream, "offset": offset}
    answer = yield fields if length is None else {**fields, "length": length}
    return str(answer["text"])


def list_files() -> Plan[list[File]]:
    from .records import File

    return [File(**item) for item in (yield {"op": "list_files"})]


def read_file(path: str) -> Plan[bytes]:
    return (yield from _read_parts(path, {}))


def _read_parts(path: str, where: dict[str, str]) -> Plan[bytes]:
    parts: list[bytes] = []
    offset = 0
    while True:
        part = yield from _read_part(path, offset, where)
        if offset == 0 and len(part) == PART_BYTES and not where:
            whole = yield from copy_out(path)
            if whole is not None:
                return whole
        parts.append(part)
        offset += len(part)
        if len(part) < PART_BYTES:
            return b"".join(parts)


def _read_part(path: str, offset: int, where: dict[str, str]) -> Plan[bytes]:
    from base64 import b64decode

    answer = yield {"op": "get_file", "path": path, "offset": offset, "length": PART_BYTES, **where}
    if answer.get("error"):
        raise Refused(f"{path}: {answer['error']}", "file")
    return b64decode(answer["base64"])


def write_file(core: Core, path: str, contents: bytes) -> Plan[None]:
    """Writes a file. One that is too long for a line is copied as an open file, or put together in the session from parts."""
    from base64 import b64encode

    from ._seeds import literal

    if len(contents) <= MAX_PUT_BYTES:
        yield {"op": "put_file", "path": path, "base64": b64encode(contents).decode("ascii")}
        return
    if (yield from copy_in(path, contents)):
        return
    names: list[str] = []
    for number, start in enumerate(range(0, len(contents), MAX_PUT_BYTES)):
        name = f".cellblock-part-{number}"
        yield {"op": "put_file", "path": name, "base64": b64encode(contents[start : start + MAX_PUT_BYTES]).decode("ascii")}
        names.append(name)
    yield from _run_own(core, _JOIN.format(path=literal(path), names=literal(names)))


_JOIN = """\
def _cellblock_join(path, names):
    import os, shutil
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as whole:
        for name in names:
            with open(name, "rb") as part:
                shutil.copyfileobj(part, whole, 1 << 20)
            os.unlink(name)
_cellblock_join({path}, {names})
del _cellblock_join
"""


def upload(core: Core, source: Path, path: str) -> Plan[None]:
    """A file, or a directory with everything below it, of this machine into the workspace."""
    if not source.is_dir():
        yield from _upload_file(core, source, path)
        return
    for entry in sorted(source.rglob("*")):
        if entry.is_file():
            yield from _upload_file(core, entry, f"{path.rstrip('/')}/{entry.relative_to(source).as_posix()}")


def _upload_file(core: Core, source: Path, path: str) -> Plan[None]:
    with source.open("rb") as file:
        if source.stat().st_size > MAX_PUT_BYTES and (yield from copy_in_file(path, file.fileno())):
            return
        yield from write_file(core, path, file.read())


def download(path: str, target: Path) -> Plan[list[Path]]:
    """A file of the workspace, or all below a directory (`"out/"`, or `""` for everything), to this machine."""
    listed = yield {"op": "list_files"}
    below = path if not path or path.endswith("/") else path + "/"
    found = [item["path"] for item in listed if item["path"] == path or item["path"].startswith(below)]
    sizes = {item["path"]: item["bytes"] for item in listed}
    if not found:
        raise Refused(f"there is no file {path!r} in the workspace", "file")
    written: list[Path] = []
    for name in found:
        # A single file goes to `target` itself; those of a directory keep their paths below it.
        place = target if name == path else target.joinpath(*_safe_parts(name[len(below) :]))
        if name == path and target.is_dir():
            place = target / _safe_parts(name)[-1]
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("wb") as file:
            offset = 0
            is_large = sizes[name] > PART_BYTES
            if is_large and (yield from copy_out_file(name, file.fileno())):
                written.append(place)
                continue
            while part := (yield from _read_part(name, offset, {})):
                file.write(part)
                offset += len(part)
        written.append(place)
    return written


def _safe_parts(path: str) -> list[str]:
    # The names were chosen by code in the session: none may lead out of the target.
    parts = [part for part in path.split("/") if part]
    if not parts or any(part in (".", "..") or "\0" in part or "\\" in part for part in parts):
        raise Refused(f"the name {path!r} of a file in the workspace cannot be used here", "file")
    return parts


def _is_array(value: Any) -> bool:
    from .arrays import is_array_type

    return is_array_type(type(value))
