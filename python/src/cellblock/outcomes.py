"""What comes of a run of an agent: its events, and its outcome."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

from ._types import convert
from .errors import AgentFailed

T = TypeVar("T")


class AgentEvent(NamedTuple):
    """Something that happens in a run: `kind` is `thought_part`, `code`, `cell`, `answer`, …; `data` is the rest of the event."""

    kind: str
    data: dict[str, Any]


class Outcome(Generic[T]):
    """How a run ended. There is always one: an answer, or the reason why there is none and the last that was reached."""

    __slots__ = ("answer", "raw")

    def __init__(self, raw: dict[str, Any], kind: Any = Any) -> None:
        #: The whole outcome as it came.
        self.raw = raw
        #: The answer, of the type that was asked for; `None` where there is none.
        self.answer: T | None = None if raw["answer"] is None else convert(raw["answer"], kind, "the answer")

    @property
    def ok(self) -> bool:
        """Whether there is an answer."""
        return bool(self.status == "answered")

    @property
    def status(self) -> str:
        """`answered`, or why there is no answer: `max_steps`, `stuck`, `model_error`, … (docs/agent.md lists them)."""
        return str(self.raw["status"])

    @property
    def message(self) -> str | None:
        """Why there is no answer, in words."""
        message: str | None = self.raw["message"]
        return message

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What the model thought and did, in order."""
        return list(self.raw["steps"])

    @property
    def usage(self) -> dict[str, Any]:
        """The tokens that it took."""
        return dict(self.raw["usage"])

    @property
    def cost(self) -> Any:
        """What the tokens cost, where prices are known."""
        return self.raw["cost"]

    @property
    def warnings(self) -> list[str]:
        """What you should know before you rely on the answer."""
        return list(self.raw["warnings"])

    @property
    def seconds(self) -> float:
        """How long the run took."""
        return float(self.raw["ms"]) / 1000

    def check(self) -> T:
        """The answer. Raises `AgentFailed` when there is none."""
        if not self.ok:
            raise AgentFailed(f"no answer ({self.status}): {self.message or self.raw.get('reached') or ''}", self)
        return self.answer  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"<Outcome {self.status}, {len(self.steps)} steps, answer {self.answer!r}>"
