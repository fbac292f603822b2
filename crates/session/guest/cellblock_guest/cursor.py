"""What stands before a cursor in source text that need not be complete: the tokens, and the string that the cursor is in."""

from __future__ import annotations

from . import BUILTINS as __builtins__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TOKEN = (
    r"(?P<comment>\#[^\n]*)"
    r"|(?P<string>[A-Za-z]{0,2}(?:'''|\"\"\"|'|\"))"
    r"|(?P<name>[^\W\d]\w*)"
    r"|(?P<number>\d(?:\w|\.(?!\.))*)"
    r"|(?P<newline>\n)"
    r"|(?P<space>[^\S\n]+|\\\n)"
    r"|(?P<other>.)"
)
_OPENING, _CLOSING = "([{", ")]}"
_ENDS = ("\n", ";", ":")  # of a statement, where no bracket is open
_compiled: list[Any] = []


class Token:
    """A piece of source text: `kind` is `name`, `number`, `string`, `newline` or `other`."""

    __slots__ = ("kind", "start", "text")

    def __init__(self, kind: str, text: str, start: int) -> None:
        self.kind, self.text, self.start = kind, text, start


class OpenString:
    """A string that the cursor is in: its prefix and quote (`rb'`), and where its contents begin."""

    __slots__ = ("contents", "opening", "start")

    def __init__(self, opening: str, contents: str, start: int) -> None:
        self.opening, self.contents, self.start = opening, contents, start


class Before:
    """The source text before a cursor, in tokens."""

    def __init__(self, code: str, position: int) -> None:
        self.position = max(0, min(position, len(code)))
        self.text = code[: self.position]
        self.tokens: list[Token] = []
        self.string: OpenString | None = None
        self.is_in_comment = False
        self._read(0)

    def prefix(self) -> str:
        """The part of a name that ends at the cursor."""
        last = self.tokens[-1] if self.tokens else None
        if last is not None and last.kind == "name" and last.start + len(last.text) == self.position:
            return last.text
        return ""

    def complete_tokens(self) -> list[Token]:
        """The tokens without the name that ends at the cursor."""
        return self.tokens[:-1] if self.prefix() else self.tokens

    def statement(self) -> list[Token]:
        """The complete tokens of the logical line that the cursor is in."""
        tokens = self.complete_tokens()
        first = depth = 0
        for index, token in enumerate(tokens):
            if token.kind == "other" and token.text in _OPENING:
                depth += 1
            elif token.kind == "other" and token.text in _CLOSING:
                depth = max(0, depth - 1)
            elif depth == 0 and token.text in _ENDS and token.kind != "string":
                first = index + 1
        return tokens[first:]

    def enclosing(self) -> int | None:
        """The index of the bracket that is open at the cursor, among the complete tokens."""
        depth = 0
        tokens = self.complete_tokens()
        for index in range(len(tokens) - 1, -1, -1):
            token = tokens[index]
            if token.kind != "other":
                continue
            if token.text in _CLOSING:
                depth += 1
            elif token.text in _OPENING:
                if depth == 0:
                    return index
                depth -= 1
        return None

    def expression_ending_at(self, index: int) -> str:
        """The source of the longest chain of names, attributes, subscripts and calls whose last token has this index.

        Empty where no such chain ends there.
        """
        tokens = self.complete_tokens()
        if index < 0 or index >= len(tokens):
            return ""
        last = tokens[index]
        first: int | None = None
        position = index
        while position >= 0:
            token = tokens[position]
            if token.kind == "other" and token.text in _CLOSING:
                opening = _matching(tokens, position)
                if opening is None:
                    return ""
                first = opening
                before = tokens[opening - 1] if opening else None
                if before is not None and (before.kind == "string" or _ends_operand(before)):
                    position = opening - 1
                    continue
            elif token.kind in ("name", "string"):
                first = position
            else:
                break
            if first > 1 and tokens[first - 1].text == "." and tokens[first - 1].kind == "other":
                position = first - 2
                continue
            break
        if first is None:
            return ""
        return self.text[tokens[first].start : last.start + len(last.text)]

    def _read(self, start: int) -> None:
        pattern = _pattern()
        at, end = start, len(self.text)
        while at < end:
            match = pattern.match(self.text, at)
            kind, text = match.lastgroup, match.group()
            if kind == "string":
                after = _string_end(self.text, match.end(), text)
                if after is None:
                    self._enter_string(text, match.end())
                    return
                text = self.text[at:after]
            elif kind == "comment":
                self.is_in_comment = match.end() == end
            if kind in ("name", "number", "string", "newline", "other"):
                self.tokens.append(Token(kind, text, at))
            at += len(text)

    def _enter_string(self, opening: str, start: int) -> None:
        contents = self.text[start:]
        prefix = opening.rstrip("'\"").lower()
        if "f" in prefix or "t" in prefix:
            brace = _open_brace(contents)
            if brace is not None:
                # Code in a formatted string.
                self.tokens.append(Token("newline", "\n", start))
                self._read(start + brace + 1)
                return
        self.string = OpenString(opening, contents, start)


def _pattern() -> Any:
    if not _compiled:
        import re

        _compiled.append(re.compile(_TOKEN))
    return _compiled[0]


def _string_end(text: str, at: int, opening: str) -> int | None:
    """The place after the closing quote, or after a line that lacks one; `None` where the text ends inside the string."""
    quote = opening.lstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    while True:
        closing = text.find(quote, at)
        line_end = text.find("\n", at) if len(quote) == 1 else -1
        escape = text.find("\\", at)
        candidates = [place for place in (closing, line_end) if place >= 0]
        if not candidates:
            return None
        nearest = min(candidates)
        if 0 <= escape < nearest:
            at = escape + 2
            continue
        return nearest + len(quote) if nearest == closing else nearest


def _open_brace(contents: str) -> int | None:
    """The place of the `{` in a formatted string that is not closed."""
    found: list[int] = []
    at = 0
    while at < len(contents):
        character = contents[at]
        if character == "{" and not found and contents[at + 1 : at + 2] == "{":
            at += 1
        elif character == "{":
            found.append(at)
        elif character == "}" and found:
            found.pop()
        at += 1
    return found[-1] if found else None


def _matching(tokens: list[Token], closing: int) -> int | None:
    """The index of the bracket that this one closes."""
    depth = 0
    for index in range(closing, -1, -1):
        token = tokens[index]
        if token.kind == "other" and token.text in _CLOSING:
            depth += 1
        elif token.kind == "other" and token.text in _OPENING:
            depth -= 1
            if depth == 0:
                return index
    return None


def _ends_operand(token: Token) -> bool:
    from keyword import iskeyword

    if token.kind == "name":
        return not iskeyword(token.text)
    return token.kind == "other" and token.text in _CLOSING
