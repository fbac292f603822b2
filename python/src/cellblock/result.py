"""What is known about a cell after it ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from .errors import CellFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .records import CellError, CheckpointState, FileChanges, MimeBundle, ToolCallRecord, Usage, VariableChanges

T = TypeVar("T")
Status = Literal["success", "failure", "timeout", "crashed", "interrupted"]
Outcome = Literal["kept", "restored", "ended"]


class Result:
    """What came of a cell. A cell that failed is a result too: look at `ok` or `status`, or call `check()`.

    In a notebook it shows the value, or the output and the traceback.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: dict[str, Any]) -> None:
        #: The whole result as it came, in the form that docs/sessions.md describes.
        self.raw = raw

    @property
    def ok(self) -> bool:
        """Whether the cell ran to its end."""
        return bool(self.raw["status"] == "success")

    @property
    def status(self) -> Status:
        """`success`; `failure`: an exception ended it; `timeout`; `crashed`: the process ended; `interrupted`."""
        status: Status = self.raw["status"]
        return status

    @property
    def cell(self) -> int:
        """The number of the cell. No number is used twice."""
        return int(self.raw["cell"])

    @property
    def session(self) -> str:
        """The name of the session it ran in."""
        return str(self.raw["session"])

    @property
    def stdout(self) -> str:
        """What was written to standard output; only its beginning where `truncated` says so."""
        return str(self.raw["stdout"])

    @property
    def stderr(self) -> str:
        """What was written to standard error."""
        return str(self.raw["stderr"])

    @property
    def output(self) -> str:
        """Both streams in the order in which they were written."""
        return str(self.raw["output"])

    @property
    def truncated(self) -> dict[str, dict[str, int]]:
        """For each stream that is not whole, how many bytes are here (`kept`) and how many are not (`left_out`)."""
        return dict(self.raw["truncated"] or {})

    @property
    def text(self) -> str:
        """The `repr` of the value of the last expression; empty when there is none."""
        value = self.raw["value"]
        return "" if value is None else str(value["repr"])

    @property
    def mime(self) -> MimeBundle:
        """The forms of the value by MIME type: `text/plain`, `text/html`, `image/png` as base64, and so on."""
        value = self.raw["value"]
        return {} if value is None else dict(value["mime"])

    @property
    def displays(self) -> list[MimeBundle]:
        """What the cell showed with `display(...)` and `plt.show()`, in order."""
        return list(self.raw["displays"])

    @property
    def images(self) -> list[bytes]:
        """The PNG pictures among the displays and the value."""
        from base64 import b64decode

        return [b64decode(bundle["image/png"]) for bundle in (*self.displays, self.mime) if "image/png" in bundle]

    @property
    def error(self) -> CellError | None:
        """The exception that ended the cell."""
        error = self.raw["error"]
        if error is None:
            return None
        from .records import CellError, Frame

        frames = [Frame(**frame) for frame in error["frames"]]
        texts = error["type"], error["value"], error["repr"], error["traceback"]
        return CellError(*texts, frames, error.get("hint"), error.get("obstacle"), error.get("package"))

    @property
    def exit_code(self) -> int | None:
        """The exit code of the interpreter, when the cell ended it."""
        code: int | None = self.raw["exit_code"]
        return code

    @property
    def signal(self) -> int | None:
        """The signal that ended the interpreter; 9 after a time-out."""
        signal: int | None = self.raw["signal"]
        return signal

    @property
    def stopped_at(self) -> str | None:
        """Where the cell was when its time was over, if Python could say so: `line 6 of <cell 3>`."""
        place: str | None = self.raw.get("stopped_at")
        return place

    @property
    def variables(self) -> VariableChanges:
        """Which variables are new, changed and gone."""
        from .records import variable_changes

        return variable_changes(self.raw["variables"])

    @property
    def files(self) -> FileChanges:
        """Which files of the workspace are new, changed and gone."""
        from .records import file_changes

        return file_changes(self.raw["files"])

    @property
    def outcome(self) -> Outcome:
        """`kept`: what the cell did is there; `restored`: the session went back to a checkpoint; `ended`: it is over.

        After `restored`, the state is that of before the cell, except for the effects of the cells in `lost`.
        """
        outcome: Outcome = self.raw["state"]["outcome"]
        return outcome

    @property
    def not_restored(self) -> list[str]:
        """After `restored`: what could not be put back."""
        return list(self.raw["state"].get("not_restored", ()))

    @property
    def replayed(self) -> list[int]:
        """After `restored` from an older checkpoint: the cells before this one that were run again."""
        return list(self.raw["state"].get("replayed", ()))

    @property
    def differed(self) -> list[str]:
        """What the cells in `replayed` did otherwise than the first time, in a few lines."""
        return list(self.raw["state"].get("differed", ()))

    @property
    def lost(self) -> list[int]:
        """After `restored` from an older checkpoint: the cells before this one whose effects are gone."""
        return list(self.raw["state"].get("lost", ()))

    @property
    def replay_ms(self) -> int | None:
        """How many milliseconds it took to run the cells in `replayed`; `None` where there was none."""
        ms: int | None = self.raw["state"].get("replay_ms")
        return ms

    @property
    def checkpoint(self) -> CheckpointState:
        """The checkpoint that the cell started with."""
        from .records import CheckpointState

        return CheckpointState(**self.raw["state"]["checkpoint"])

    @property
    def usage(self) -> Usage:
        """What the cell cost."""
        from .records import Usage

        return Usage(**self.raw["usage"])

    @property
    def tool_calls(self) -> list[ToolCallRecord]:
        """The tools that the code called, in order."""
        from .records import ToolCallRecord

        return [ToolCallRecord(**call) for call in self.raw["tool_calls"]]

    @property
    def isolation(self) -> str:
        """Behind which walls the cell ran: `full`, or `full without seccomp`."""
        return str(self.raw["isolation"])

    @overload
    def value(self) -> Any: ...
    @overload
    def value(self, kind: type[T]) -> T: ...
    @overload
    def value(self, kind: Any) -> Any: ...
    def value(self, kind: Any = Any) -> Any:
        """The value of the last expression as a Python value, of the type that is asked for: `value(int)`, `value(list[str])`.

        Numbers, texts, bytes, dates and containers of them cross exactly. A dataclass or a pydantic model is made
        from the object of that name in the session. Nothing is unpickled. A cell without a value gives `None`.

        Raises `CellFailed` when the cell did not succeed, and `WrongValue` when the value is of another type or cannot cross.
        """
        from ._literals import read_repr
        from ._types import convert

        self.check()
        value = self.raw["value"]
        return convert(None if value is None else read_repr(value["repr"]), kind)

    def check(self) -> Result:
        """The result itself when the cell succeeded; else raises `CellFailed`."""
        if not self.ok:
            raise CellFailed(self)
        return self

    def failure_text(self) -> str:
        """What went wrong, for people: the traceback or how the process ended, what could not be brought back, and what helps."""
        from ._remedies import hints

        error = self.error
        said = error.traceback.rstrip() if error is not None else f"the cell ended as {self.status}"
        how = f" (signal {self.signal})" if error is None and self.signal is not None else ""
        helps = "".join(f"\nhint: {hint}" for hint in hints(self.status, self.raw["error"]))
        return f"{said}{how}{self._told_of_restore()}{helps}"

    def _told_of_restore(self) -> str:
        """The lines about a way back that did not bring everything back, or not at once."""
        again = ", ".join(map(str, self.replayed))
        lines = [f"run again: cells {again}"] if again else []
        lines += [f"differs: {what}" for what in self.differed] + [f"not restored: {what}" for what in self.not_restored]
        return "".join(f"\n{line}" for line in lines)

    def __repr__(self) -> str:
        parts = [f"cell {self.cell}", self.status]
        if self.text:
            parts.append(f"value {_short(self.text)}")
        if self.error is not None:
            parts.append(_short(self.error.repr))
        if self.output:
            parts.append(f"output {_short(repr(self.output))}")
        return f"<Result {', '.join(parts)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self.raw == other.raw

    __hash__ = None  # type: ignore[assignment]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> MimeBundle:
        """What a notebook shows. HTML, SVG and scripts of the session are not passed on: they would run in your page."""
        return {"text/plain": self.as_text(), "text/html": self._repr_html_()}

    def _repr_html_(self) -> str:
        """The result as HTML: text is escaped, tables are drawn from data, HTML of the session stands in a sandboxed frame."""
        from html import escape

        parts = [f"<pre>{escape(self.output)}</pre>"] if self.output else []
        for bundle in (*self.displays, self.mime):
            parts += _html_of(bundle)
        if not self.ok:
            parts.append(f'<pre style="color:#b00">{escape(self.failure_text())}</pre>')
        return "\n".join(parts) or "<pre></pre>"

    def as_text(self, max_characters: int | None = None) -> str:
        """Everything a reader of plain text wants, in order: the output, what was shown, the value, or what went wrong.

        Of a text longer than `max_characters`, the beginning and the end are given, with a line between them that says so.
        """
        parts = [self.output, *(str(bundle.get("text/plain", "")) for bundle in self.displays), self.text]
        parts += [] if self.ok else [self.failure_text()]
        text = "\n".join(part.rstrip("\n") for part in parts if part)
        if max_characters is None or len(text) <= max_characters:
            return text
        half = max_characters // 2
        return f"{text[:half]}\n… ({len(text) - 2 * half} characters left out)\n{text[-half:]}"


def _html_of(bundle: MimeBundle) -> Iterator[str]:
    """The best form of a bundle that cannot harm the page: a picture, a table, HTML in a frame without scripts, or text."""
    from html import escape

    for kind in ("image/png", "image/jpeg"):
        data = bundle.get(kind)
        # Base64 has no character that could end the attribute; anything else is not shown.
        if isinstance(data, str) and not set(data) - _BASE64:
            yield f'<img src="data:{kind};base64,{data}"/>'
            return
    table = bundle.get(_TABLE)
    if isinstance(table, dict):
        yield _html_table(table)
    elif isinstance(bundle.get("text/html"), str):
        yield f'<iframe sandbox="" style="width:100%;height:20em;border:0" srcdoc="{escape(bundle["text/html"])}"></iframe>'
    elif bundle.get("text/plain"):
        yield f"<pre>{escape(str(bundle['text/plain']))}</pre>"


def _html_table(table: dict[str, Any]) -> str:
    from html import escape

    def row(tag: str, first: Any, cells: list[Any]) -> str:
        return f"<tr><th>{escape(str(first))}</th>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    columns, rows = table.get("columns") or [], table.get("rows") or []
    names = [column.get("name", "") if isinstance(column, dict) else column for column in columns]
    index = table.get("index") or range(len(rows))
    body = "".join(row("td", label, cells) for label, cells in zip(index, rows, strict=False) if isinstance(cells, list))
    total_rows, total_columns = table.get("total_rows"), table.get("total_columns")
    note = f"<p>{escape(str(total_rows))} rows × {escape(str(total_columns))} columns</p>" if total_rows != len(rows) else ""
    return f"<table><thead>{row('th', '', names)}</thead><tbody>{body}</tbody></table>{note}"


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


_TABLE = "application/vnd.cellblock.table+json"
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\n")
