"""Help about the name at a cursor, for the `inspect_at` request. Runs no code of the user's."""

from __future__ import annotations

from . import BUILTINS as __builtins__
from . import callables, lookup, reprs
from .cursor import Before
from .libraries import module_of
from .summaries import summarize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_DOC = 20_000
_MAX_SOURCE = 100_000
_WIDTH = 11


def describe(namespace: dict[str, Any], code: str, position: int, detail: int) -> dict[str, Any]:
    """The answer to `inspect_at`: what is at the cursor, or the function that is called around it. `detail` 1 adds the source."""
    for source in _candidates(code, position):
        try:
            value = _value(namespace, source)
        except LookupError:
            continue
        return {"found": True, "mime": {"text/plain": _text(source, value, detail)}}
    return {"found": False, "mime": {}}


def _value(namespace: dict[str, Any], source: str) -> Any:
    try:
        return lookup.evaluate(source, namespace)
    except LookupError:
        owner, dot, name = source.rpartition(".")
        if not dot:
            raise
        # A property is described, not evaluated.
        return lookup.class_attribute(type(lookup.evaluate(owner, namespace)), name)[0]


def _candidates(code: str, position: int) -> list[str]:
    position = max(0, min(position, len(code)))
    # A cursor in a name means the whole of it; `zip?` means `zip`.
    while position < len(code) and (code[position].isalnum() or code[position] == "_"):
        position += 1
    if code[:position].rstrip().endswith("?"):
        position = len(code[:position].rstrip().rstrip("?"))
    # A space keeps the name at the cursor among the complete tokens.
    before = Before(code[:position] + " ", position + 1)
    tokens = before.complete_tokens()
    found = [before.expression_ending_at(len(tokens) - 1)]
    index = before.enclosing()
    if index is not None and tokens[index].text == "(":
        found.append(before.expression_ending_at(index - 1))
    return [source for source in found if source and not source[0].isdigit()]


def _text(source: str, value: Any, detail: int) -> str:
    name = source.rpartition(".")[2]
    parts: list[str] = []
    signature = callables.signature(value)
    if signature:
        parts.append(_field("Signature", name + signature))
    parts.append(_field("Type", reprs.type_name(type(value))))
    if not signature and (summary := summarize(value)):
        parts.append(_field("Value", summary))
    code = _code_of(value)
    if code is not None:
        parts.append(_field("File", str(code.co_filename)))
    doc = _documentation(value)
    if doc:
        parts.append(f"Docstring:\n{reprs.cut(doc, _MAX_DOC)}")
    if detail > 0 and (text := _source(value)):
        parts.append(f"Source:\n{reprs.cut(text, _MAX_SOURCE)}")
    return "\n".join(parts)


def _field(name: str, text: str) -> str:
    return f"{name + ':':<{_WIDTH}}{text}"


def _code_of(value: Any) -> Any:
    function = value.__func__ if type(value) is callables.METHOD else value
    return function.__code__ if type(function) is callables.FUNCTION else None


def _documentation(value: Any) -> str:
    """The docstring without its indentation; that of the class for an object without one that is of no builtin type."""
    from inspect import cleandoc

    found: Any = None
    if type(value) is property:
        found = value.__doc__
    elif lookup.kind_of_value(value) != "instance" or module_of(type(value)) != "builtins":
        try:
            found = lookup.attribute(value, "__doc__")
        except LookupError:
            pass
    return cleandoc(found) if type(found) is str else ""


def _source(value: Any) -> str:
    import inspect

    wanted = value if type(value) is type else _code_of(value)
    if wanted is None:
        return ""
    try:
        return inspect.getsource(wanted)
    except Exception:
        return ""
