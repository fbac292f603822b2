

class ToolError(Exception):
    """A tool failed; the message says why."""


class _Tools:
    """The recorded tools, as attributes."""


class _ToolBox:
    """Answers calls of tools with what was recorded for the cell that runs."""

    def __init__(self, session):
        self.session = session
        self.offered = {}
        self.tools = builtins.tools = _Tools()
        ToolError.__module__ = "builtins"
        builtins.ToolError = ToolError

    def offer(self, specifications):
        for name in self.offered:
            if vars(builtins).get(name) is self.offered[name]:
                delattr(builtins, name)
        vars(self.tools).clear()
        self.offered = {name: self.function(tool, name, parameters) for tool, name, parameters in specifications}
        vars(self.tools).update(self.offered)
        for name, function in self.offered.items():
            if not hasattr(builtins, name):
                setattr(builtins, name, function)

    def function(self, tool, name, parameters):
        def call(*args, **kwargs):
            names = {name + "_" if keyword.iskeyword(name) else name: name for name in parameters}
            arguments = dict(zip(parameters, args))
            arguments.update({names.get(key, key): value for key, value in kwargs.items()})
            return self.answer(tool, json.loads(json.dumps(arguments, default=_plain)))

        async def aio(*args, **kwargs):
            return call(*args, **kwargs)

        call.aio = aio
        call.__name__ = call.__qualname__ = name
        return call

    def answer(self, tool, arguments):
        if tool == "final_answer":
            print(arguments.get("answer"))
            return "received"
        for index, (name, recorded, kind, answer) in enumerate(self.session.calls):
            if (name, recorded) == (tool, arguments):
                del self.session.calls[index]
                if kind == "error":
                    raise ToolError(answer)
                return answer
        raise ToolError(f"no call of {tool} with {arguments} was recorded")


def _plain(value):
    for method in ("isoformat", "tolist", "__fspath__"):
        if hasattr(value, method):
            return getattr(value, method)()
    return list(value)
