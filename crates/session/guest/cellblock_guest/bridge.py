"""The host's tools as Python functions: `lookup(query="…")`, `tools.lookup(…)` and `await tools.lookup.aio(…)`."""

from __future__ import annotations

from keyword import iskeyword

from . import BUILTINS, signatures, tagged, wire
from . import BUILTINS as __builtins__
from .channel import Mailbox
from .wire import FrameTooLarge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .channel import Channel
    from .streams import Streams
    from .wire import Frame


# The tool that ends a run with a value; it takes any object.
_FINAL_ANSWER = "final_answer"
# The content of a handle that stands for a large value: JSON data with tags, compressed.
_PACKED_VALUE = "application/vnd.cellblock.value+zlib"


class ToolError(Exception):
    """A tool of the host failed; the message says why."""


ToolError.__module__ = "builtins"  # where cells find it
ToolError.__qualname__ = "ToolError"


class ToolResponse:
    """Content of a tool that is no JSON: an image, a document. Its text form stands for it in the final output."""

    def __init__(self, id: str, mime: str, data: bytes) -> None:
        self.id = id
        self.mime = mime
        self.size = len(data)
        self._data = data

    def bytes(self) -> bytes:
        return self._data

    def text(self, encoding: str = "utf-8", errors: str = "replace") -> str:
        return self._data.decode(encoding, errors)

    def value(self) -> Any:
        """The value that a tool written in Python returned and that was too large to come as itself; else the bytes."""
        if self.mime != _PACKED_VALUE:
            return self._data
        import zlib

        return tagged.decode(wire.decode(zlib.decompress(self._data)))

    def __str__(self) -> str:
        return f"<<TOOL_RESPONSE:{self.id}>>"

    def __repr__(self) -> str:
        return f"<ToolResponse {self.mime}, {self.size} bytes>"

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, Any]:
        """So that `display(response)`, or a cell that ends with it, shows it."""
        return {self.mime: self.text() if self.mime.startswith("text/") else self._data}


class Tools:
    """The namespace `tools`: every tool that the host offers, as an attribute."""

    def search(self, words: str) -> str:
        """The tools whose name or description has one of these words, the best match first, with their whole descriptions."""
        wanted = [word for word in str(words).lower().replace("_", " ").split() if word]
        scored = []
        for name, function in sorted(self._functions().items()):
            title, text = name.lower().replace("_", " "), (function.__doc__ or "").lower()
            score = sum([3 * (word in title) + (word in text) for word in wanted])
            if score or not wanted:
                scored.append((-score, name, function))
        found = [_described(name, function) for _, name, function in sorted(scored, key=_order)[:_MAX_FOUND]]
        return (
            "\n\n".join(found) or f"no tool has the words {words!r}; there are: {', '.join(sorted(self._functions())) or 'none'}"
        )

    def _functions(self) -> dict[str, Any]:
        return dict(vars(self))

    def __repr__(self) -> str:
        return f"<tools: {', '.join(sorted(vars(self))) or 'none'}>"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no tool {name!r}; there are: {', '.join(sorted(vars(self))) or 'none'}")


class Bridge:
    """Makes the functions, and carries their calls.

    They are put among the builtins, not among the user's variables: so a variable of the same name hides the tool, clearing the
    variables does not lose it, and functions in files of the user's see it too.
    """

    def __init__(self, channel: Channel, streams: Streams, scope: dict[str, Any]) -> None:
        self._channel = channel
        self._streams = streams
        self._scope = scope
        self._offered: dict[str, Any] = {}
        self.tools = Tools()
        scope["tools"] = self.tools
        scope["ToolError"] = ToolError

    def offer(self, specifications: list[dict[str, Any]]) -> None:
        """Replace the tools by these: `{name, description, parameters}` each."""
        functions: dict[str, Any] = {}
        for specification in specifications:
            name = python_name(specification["name"])
            if name in functions:
                raise ValueError(f"two tools would both be called {name!r} in Python")
            functions[name] = self._function(name, specification)
        for name, function in self._offered.items():
            if self._scope.get(name) is function:
                del self._scope[name]
        vars(self.tools).clear()
        vars(self.tools).update(functions)
        self._offered = functions
        for name, function in functions.items():
            if name not in BUILTINS and name not in ("tools", "ToolError", "display"):
                self._scope[name] = function
        # `help(tools)` shows the text of the class.
        Tools.__doc__ = _documentation(functions)

    def _function(self, name: str, specification: dict[str, Any]) -> Callable[..., Any]:
        tool: str = specification["name"]
        parameters = signatures.parameters(specification.get("parameters") or {})

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                answer = self._channel.ask(self._request(tool, name, parameters, args, kwargs))
            except FrameTooLarge as error:
                raise ToolError(f"the arguments of {name}() are too large: {error}") from None
            return self._result(answer)

        async def aio(*args: Any, **kwargs: Any) -> Any:
            try:
                answer = await _ask_on_loop(self._channel, self._request(tool, name, parameters, args, kwargs))
            except FrameTooLarge as error:
                raise ToolError(f"the arguments of {name}() are too large: {error}") from None
            return self._result(answer)

        for function in (call, aio):
            function.__name__ = name
            function.__qualname__ = name if function is call else f"{name}.aio"
            function.__module__ = "tools"
            function.__doc__ = signatures.documentation(specification.get("description") or "", parameters)
            vars(function)["__signature__"] = signatures.signature(parameters)
        vars(call)["aio"] = aio
        return call

    def _request(
        self,
        tool: str,
        name: str,
        parameters: list[signatures.Parameter],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Frame:
        """Missing and ill-typed arguments are the host's to refuse: it has the schema."""
        rest = next((parameter for parameter in parameters if parameter.takes_rest), None)
        if rest is not None:
            first = [parameter for parameter in parameters if parameter.is_positional]
            args, more = args[: len(first)], args[len(first) :]
            parameters = [*first, *[parameter for parameter in parameters if parameter not in first]]
            if more:
                kwargs = {**kwargs, rest.name: list(more)}
        if len(args) > len(parameters):
            raise TypeError(f"{name}() takes {len(parameters)} arguments but {len(args)} were given")
        arguments = {parameter.name: value for parameter, value in zip(parameters, args)}
        names = {parameter.python_name: parameter.name for parameter in parameters}
        for key, value in kwargs.items():
            key = names.get(key, key)
            if key in arguments:
                raise TypeError(f"{name}() got multiple values for argument {key!r}")
            arguments[key] = value
        plain = _answer_of if tool == _FINAL_ANSWER else wire.plain
        python = {parameter.name for parameter in parameters if parameter.takes_python}
        arguments = {
            key: (tagged.encode if key in python else plain)(value, f"{name}({key}=…)")
            for key, value in arguments.items()
            if value is not signatures.NOT_GIVEN
        }
        self._streams.flush()
        return {"t": "tool_call", "name": tool, "arguments": arguments}

    def _result(self, answer: Frame) -> Any:
        error = answer.get("error")
        if error is not None:
            raise ToolError(error)
        content = answer.get("content")
        if content is None:
            return tagged.decode(answer.get("result"))
        parts = [
            part["text"] if "text" in part else ToolResponse(part["id"], part["mime"], wire.from_base64(part["base64"]))
            for part in content
        ]
        return parts[0] if len(parts) == 1 else parts


# The most tools that one search returns.
_MAX_FOUND = 8


def _order(found: tuple[int, str, Any]) -> tuple[int, str]:
    return found[:2]


def _described(name: str, function: Any) -> str:
    """One tool with its signature and its documentation."""
    text = (function.__doc__ or "").strip().replace("\n", "\n    ")
    return f"{name}{function.__signature__}\n    {text}"


def _documentation(functions: dict[str, Any]) -> str:
    """The text of `help(tools)`: every tool with its signature and the first line of its documentation."""
    lines = ["The tools that the host offers. help(tools.NAME) says more about one, tools.search('words') finds some.", ""]
    for name, function in sorted(functions.items()):
        first = (function.__doc__ or "").strip().split("\n")[0]
        lines.append(f"{name}{function.__signature__}: {first}")
    return "\n".join(lines)


def _answer_of(value: Any, what: str) -> Any:
    """The value of `final_answer`: plain data, or the text of an object that JSON cannot say. Such an object is kept as a file
    too."""
    try:
        return wire.plain(value, what)
    except TypeError:
        pass
    path = _keep(value)
    text = str(value)
    return f"{text}\n(in the file {path})" if path else text


def _keep(value: Any) -> str | None:
    """Write an object into the workspace: a table as CSV, a picture as PNG, bytes as they are. The name of the file, if there is
    one."""
    if isinstance(value, (bytes, bytearray)):
        with open("final_answer.bin", "wb") as file:
            file.write(value)
        return "final_answer.bin"
    for method, path in (("to_csv", "final_answer.csv"), ("savefig", "final_answer.png"), ("save", "final_answer.png")):
        write = getattr(value, method, None)
        if callable(write):
            try:
                write(path)
            except Exception:
                continue
            return path
    return None


def python_name(name: str) -> str:
    """A tool's name as an identifier: `get-weather` becomes `get_weather`."""
    text = "".join([letter if ("_" + letter).isidentifier() else "_" for letter in name]) or "_"
    if text[0].isdigit():
        text = "_" + text
    return text + "_" if iskeyword(text) else text


async def _ask_on_loop(channel: Channel, request: Frame) -> Frame:
    """Like `channel.ask`, but the event loop waits for the socket, so that other tasks go on. No thread is made."""
    import asyncio

    loop = asyncio.get_running_loop()
    mailbox = _FutureMailbox(loop)
    call = channel.expect(mailbox)
    loop.add_reader(channel.fd, channel.pump)
    _readers[id(loop)] = _readers.get(id(loop), 0) + 1
    try:
        channel.send({**request, "call": call})
        answer: Frame = await mailbox.future
        return answer
    finally:
        channel.forget(call)
        _readers[id(loop)] -= 1
        if not _readers[id(loop)]:
            del _readers[id(loop)]
            loop.remove_reader(channel.fd)


# How many calls wait on each event loop.
_readers: dict[int, int] = {}


class _FutureMailbox(Mailbox):
    """Puts the frame into a future. Whichever thread read it, the loop is told in the safe way."""

    __slots__ = ("_loop", "future")

    def __init__(self, loop: Any) -> None:
        super().__init__()
        self._loop = loop
        self.future = loop.create_future()

    def ring(self) -> None:
        if self.frames:  # else the channel needs a reader; the loop watches the socket itself
            try:
                self._loop.call_soon_threadsafe(self._resolve)
            except RuntimeError:  # the loop was closed meanwhile
                pass

    def _resolve(self) -> None:
        if not self.future.done():
            self.future.set_result(self.frames[0])
