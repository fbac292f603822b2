"""Who is asked before a tool runs.

A tool that is marked `changes=True` does something that no undo brings back. It runs only if the session's `approve` agrees;
where no person can be asked, it is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, cast


class Call(NamedTuple):
    """A call of a tool that waits for approval: the tool's name, its arguments, and whether it changes something outside."""

    name: str
    arguments: dict[str, Any]
    changes: bool


class Approve:
    """What an approval function answers: `Approve.accept()`, `.edit(...)`, `.respond(text)` or `.reject(reason)`."""

    __slots__ = ("arguments", "kind", "text")

    def __init__(self, kind: Literal["accept", "edit", "respond", "reject"], text: str = "", **arguments: Any) -> None:
        self.kind = kind
        self.text = text
        self.arguments = arguments

    @classmethod
    def accept(cls) -> Approve:
        """The call runs as it is."""
        return cls("accept")

    @classmethod
    def edit(cls, **arguments: Any) -> Approve:
        """The call runs with these arguments in place of its own; those that are not named stay."""
        made = cls("edit")
        made.arguments = arguments
        return made

    @classmethod
    def respond(cls, text: str) -> Approve:
        """The call does not run; the code gets this text as its result."""
        return cls("respond", text)

    @classmethod
    def reject(cls, reason: str = "the call was rejected") -> Approve:
        """The call does not run; the code gets a `ToolError` with the reason."""
        return cls("reject", reason)

    def __repr__(self) -> str:
        details = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items()) or (
            repr(self.text) if self.text else ""
        )
        return f"Approve.{self.kind}({details})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Approve) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


ApproveFunction = Callable[[Call], Approve | bool | Awaitable[Approve | bool]]
Rule: TypeAlias = ApproveFunction | Literal["allow", "ask", "deny"]
Policy: TypeAlias = Rule | Mapping[str, Rule] | None


class Refusal(Exception):
    """A call that may not run."""


def rule_for(policy: Policy, call: Call) -> ApproveFunction | None:
    """The function to ask about a call; `None` when it may run unasked. Raises `Refusal` when it may not run.

    A mapping has rules by the name of the tool, and `"*"` for the rest. A function is asked about every call. Without a rule,
    tools that change nothing run, and others are refused.
    """
    rule: Any = policy
    if isinstance(policy, Mapping):
        rule = policy.get(call.name, policy.get("*"))
    if callable(rule):
        return cast("ApproveFunction", rule)
    if rule == "allow":
        return None
    if rule == "deny":
        raise Refusal(f"`{call.name}` is not allowed here")
    if rule is None and not call.changes:
        return None
    if rule in (None, "ask"):
        raise Refusal(
            f"`{call.name}` needs approval, and no person can be asked: give the session a function, "
            f"`approve=...`, or allow it with `approve={{{call.name!r}: 'allow'}}`"
        )
    raise Refusal(f"approve: expected a function, 'allow', 'ask' or 'deny' for `{call.name}`, got {rule!r}")


def decision_from(answer: Any) -> Approve:
    """What an approval function gave, checked. A plain `True` accepts, anything that is no decision refuses."""
    if answer is True:
        return Approve.accept()
    if answer is False:
        return Approve.reject()
    if isinstance(answer, Approve):
        return answer
    raise Refusal(f"the approval function gave {answer!r}, which is no decision; return Approve.accept() or Approve.reject()")
