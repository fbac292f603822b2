"""What can stand at a cursor: names, attributes, keyword arguments, modules, keys and paths. Runs no code of the user's."""

from __future__ import annotations

import builtins
import os
import sys
from time import monotonic

from . import BUILTINS as __builtins__
from . import callables, lookup
from .cursor import Before
from .libraries import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from .cursor import OpenString, Token
    from .ipython import Notebook

# The host takes no more.
MAX_MATCHES = 1000
_MAX_ENTRIES = 20_000  # of a directory
_MAX_SECONDS = 1.0
_MODULE_ENDS = (".py", ".so", ".pyd")


def complete(namespace: dict[str, Any], code: str, position: int) -> dict[str, Any]:
    """The answer to `complete`."""
    before = Before(code, position)
    collector = _Collector(before.position)
    try:
        for match in _matches(namespace, code, before):
            collector.add(*match)
    except _Enough:
        pass
    return {"matches": collector.matches}


class _Enough(Exception):
    """There are as many matches as an answer holds, or the time is over."""


class _Collector:
    def __init__(self, end: int) -> None:
        self.matches: list[dict[str, Any]] = []
        self._seen: set[str] = set()
        self._end = end
        self._deadline = monotonic() + _MAX_SECONDS

    def add(self, text: str, start: int, kind: str) -> None:
        if len(self.matches) >= MAX_MATCHES or monotonic() > self._deadline:
            raise _Enough
        if text not in self._seen:
            self._seen.add(text)
            self.matches.append({"text": text, "start": start, "end": self._end, "type": kind})


def _matches(namespace: dict[str, Any], code: str, before: Before) -> Iterator[tuple[str, int, str]]:
    """Each match: its text, where the text that it replaces begins, and what it is."""
    if before.is_in_comment:
        return
    if before.string is not None:
        yield from _in_string(namespace, before, before.string)
        return
    prefix = before.prefix()
    start = before.position - len(prefix)
    statement = before.statement()
    if statement and statement[0].kind == "name" and statement[0].text in ("import", "from"):
        yield from _in_import(statement, prefix, start)
        return
    tokens = before.complete_tokens()
    last = tokens[-1] if tokens else None
    if last is not None and last.kind == "other" and last.text == ".":
        yield from _attributes(namespace, before.expression_ending_at(len(tokens) - 2), prefix, start)
        return
    if last is not None and (last.text in ("def", "class") or (last.kind == "number" and last.start + len(last.text) == start)):
        return
    yield from _keyword_arguments(namespace, before, prefix, start)
    yield from _subscripts(namespace, before, prefix, start)
    yield from _plain_names(namespace, code, before, prefix, start)


def _attributes(namespace: dict[str, Any], source: str, prefix: str, start: int) -> Iterator[tuple[str, int, str]]:
    try:
        value = lookup.evaluate(source, namespace)
    except LookupError:
        return
    for name in _ordered(lookup.names(value), prefix):
        yield name, start, _kind_of_attribute(value, name)


def _kind_of_attribute(value: Any, name: str) -> str:
    try:
        return lookup.kind_of_value(lookup.attribute(value, name))
    except LookupError:
        return "property"


def _keyword_arguments(namespace: dict[str, Any], before: Before, prefix: str, start: int) -> Iterator[tuple[str, int, str]]:
    index = before.enclosing()
    tokens = before.complete_tokens()
    if index is None or tokens[index].text != "(" or tokens[-1].text not in ("(", ",", "\n"):
        return
    source = before.expression_ending_at(index - 1)
    if not source:
        return
    try:
        found = callables.parameters(lookup.evaluate(source, namespace))
    except LookupError:
        return
    for parameter in found or []:
        if parameter.by_keyword and parameter.name.startswith(prefix):
            yield parameter.name + "=", start, "param"


def _subscripts(namespace: dict[str, Any], before: Before, prefix: str, start: int) -> Iterator[tuple[str, int, str]]:
    """The keys of a dictionary whose bracket has just been opened."""
    tokens = before.complete_tokens()
    if prefix or not tokens or tokens[-1].text != "[" or len(tokens) < 2:
        return
    for key in _keys(namespace, before.expression_ending_at(len(tokens) - 2)):
        yield repr(key), start, "dict key"


def _plain_names(namespace: dict[str, Any], code: str, before: Before, prefix: str, start: int) -> Iterator[tuple[str, int, str]]:
    own = [name for name in list(namespace) if type(name) is str and name.isidentifier()]
    for name in _ordered(own, prefix):
        yield name, start, lookup.kind_of_value(namespace.get(name))
    for name in _ordered(_names_in(code, before), prefix):
        yield name, start, "statement"
    if prefix:
        from keyword import kwlist, softkwlist

        for name in _ordered([*kwlist, *softkwlist], prefix):
            yield name, start, "keyword"
    known = vars(builtins)
    for name in _ordered([name for name in list(known) if type(name) is str], prefix):
        yield name, start, lookup.kind_of_value(known.get(name))


def _names_in(code: str, before: Before) -> set[str]:
    """Names that the same cell binds, which has not run yet."""
    tokens = Before(code, len(code)).tokens
    found: set[str] = set()
    cursor = before.position - len(before.prefix())
    for index, token in enumerate(tokens):
        if token.kind != "name" or token.start == cursor:
            continue
        previous = tokens[index - 1].text if index else ""
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        after = tokens[index + 2].text if index + 2 < len(tokens) else ""
        is_bound = following in ("=", ":", ",", "in") and previous != "." and not (following == "=" and after == "=")
        if previous in ("def", "class", "as", "import", "for") or is_bound:
            found.add(token.text)
    from keyword import iskeyword

    return {name for name in found if not iskeyword(name)}


def _in_string(namespace: dict[str, Any], before: Before, string: OpenString) -> Iterator[tuple[str, int, str]]:
    tokens = before.tokens
    if len(tokens) > 1 and tokens[-1].text == "[" and tokens[-1].kind == "other":
        quote = string.opening[-1]
        wanted = bytes if "b" in string.opening.lower() else str
        for key in _keys(namespace, before.expression_ending_at(len(tokens) - 2)):
            if type(key) is wanted:
                text = _quoted(key, quote)
                if text.startswith(string.contents):
                    yield text, string.start, "dict key"
    if "\n" not in string.contents and len(string.contents) < 4096:
        yield from _paths(string.contents, before.position)


def _keys(namespace: dict[str, Any], source: str) -> list[Any]:
    try:
        return lookup.keys(lookup.evaluate(source, namespace)) if source else []
    except LookupError:
        return []


def _quoted(key: str | bytes, quote: str) -> str:
    """A key as it stands between quotes of this kind."""
    text = repr(key)
    text = text[2:-1] if type(key) is bytes else text[1:-1]
    return text.replace("\\'", "'").replace(quote, "\\" + quote)


def _paths(contents: str, position: int) -> Iterator[tuple[str, int, str]]:
    directory, _, prefix = contents.rpartition("/")
    place = directory + "/" if "/" in contents else "."
    if place.startswith("~/"):
        place = os.environ.get("HOME", "~") + place[1:]
    for name, is_directory in _listed(place):
        if name.startswith(prefix) and (prefix or not name.startswith(".")):
            yield name + ("/" if is_directory else ""), position - len(prefix), "path"


def _listed(directory: str) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if len(found) >= _MAX_ENTRIES:
                    break
                try:
                    found.append((entry.name, entry.is_dir()))
                except OSError:
                    pass
    except (OSError, ValueError):
        pass
    return sorted(found)


def _in_import(statement: list[Token], prefix: str, start: int) -> Iterator[tuple[str, int, str]]:
    words = [token.text for token in statement]
    if words[0] == "from":
        if "import" in words:
            package = "".join(words[1 : words.index("import")])
            yield from _ordered_modules(_members_of(package), prefix, start)
            return
        path = words[1:]
        if path and path[-1] != ".":
            if "import".startswith(prefix):
                yield "import", start, "keyword"
            return
    else:
        last = max([index for index, word in enumerate(words) if word in ("import", ",")])
        path = words[last + 1 :]
        if path and path[-1] != ".":
            if "as".startswith(prefix):
                yield "as", start, "keyword"
            return
    package = "".join(path[:-1])
    yield from _ordered_modules(_submodules_of(package) if package else _top_modules(), prefix, start)


def _ordered_modules(found: dict[str, str], prefix: str, start: int) -> Iterator[tuple[str, int, str]]:
    for name in _ordered(found, prefix):
        yield name, start, found[name]


def _members_of(package: str) -> dict[str, str]:
    """What can be imported from a module, as far as that is known without importing it."""
    found = _submodules_of(package)
    module = modules.get(package)
    if module is not None:
        for name in lookup.names(module):
            found.setdefault(name, _kind_of_attribute(module, name))
    return found


def _top_modules() -> dict[str, str]:
    found = dict.fromkeys([*sys.builtin_module_names, *getattr(sys, "stdlib_module_names", ())], "module")
    for directory in list(sys.path)[:100]:
        if type(directory) is str:
            found.update(_modules_in(directory or "."))
    return found


def _submodules_of(package: str) -> dict[str, str]:
    start = package + "."
    loaded = [name[len(start) :] for name in list(modules) if type(name) is str and name.startswith(start)]
    found = {name: "module" for name in loaded if name.isidentifier()}
    for directory in _directories_of(package):
        found.update(_modules_in(directory))
    return found


def _directories_of(package: str) -> list[str]:
    """Where the modules of a package are. A package that is not loaded is looked for in `sys.path`, and not loaded."""
    module = modules.get(package)
    if module is not None:
        try:
            path = lookup.attribute(module, "__path__")
            return [entry for entry in list(path)[:10] if type(entry) is str]
        except Exception:
            return []
    if not package.replace(".", "").isidentifier():
        return []
    places = [os.path.join(entry or ".", *package.split(".")) for entry in list(sys.path)[:100] if type(entry) is str]
    return [place for place in places if os.path.isdir(place)]


def _modules_in(directory: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, is_directory in _listed(directory):
        if not is_directory:
            if not name.endswith(_MODULE_ENDS):
                continue
            name = name.partition(".")[0]
        if name.isidentifier() and name not in ("__init__", "__main__", "__pycache__"):
            found[name] = "module"
    return found


def _ordered(names: Iterable[str], prefix: str) -> list[str]:
    """Those that begin with the prefix: public ones first; names with an underscore only where one was typed."""
    fitting = [name for name in names if name.startswith(prefix) and (prefix[:1] == "_" or name[:1] != "_")]
    return sorted(fitting, key=lambda name: (name[:2] == "__", name[:1] == "_", name))


def magics(notebook: Notebook, code: str, place: int) -> list[dict[str, Any]]:
    """The magics of IPython that can stand at the cursor; none where the word there begins with no percent sign."""
    word = code[:place].rpartition("\n")[2].lstrip()
    if word[:1] != "%" or (not word.lstrip("%").isidentifier() and word.strip("%")):
        return []
    start = place - len(word)
    return [{"text": name, "start": start, "end": place, "type": "magic"} for name in notebook.magics(word)]
