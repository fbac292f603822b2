import ast
import asyncio
import builtins
import collections
import inspect
import io
import linecache
import os
import sys
import tempfile
import textwrap
import traceback
import types
import warnings


class _Output(io.TextIOWrapper):
    """Standard output that knows whether it stands in the middle of a line."""

    mid_line = False
    written = io.StringIO()

    def write(self, text):
        if text:
            self.mid_line = not text.endswith("\n")
            self.written.write(text)
        return super().write(text)

    def show(self, text):
        self.write(("\n" if self.mid_line else "") + text + "\n")


class _Session:
    """What the cells ran in: a namespace, the recorded answers, and a directory to work in."""

    def __init__(self, place):
        self.module = types.ModuleType("__main__")
        self.names = vars(self.module)
        self.flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self.loop = None
        self.imports = []
        self.inputs = collections.deque()
        self.calls = []
        self.differs = False
        self.own_place = None
        sys.stdout = sys.__stdout__ = _Output(
            sys.stdout.detach(), encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
        sys.stderr.reconfigure(line_buffering=True)
        sys.modules["__main__"] = self.module
        if len(sys.argv) > 1:
            place = sys.argv[1]
        if place is None:
            place = self.own_place = tempfile.mkdtemp(prefix="cellblock-")
        os.chdir(place)
        sys.argv = [""]
        sys.path[0] = ""
        os.environ.setdefault("MPLBACKEND", "Agg")
        warnings.filterwarnings("ignore", message=".*non-interactive.*")
        builtins.display = self.display
        builtins.input = self.input
        builtins.read_output = self.read_output
        self.clear()

    def clear(self):
        self.names.clear()
        self.names.update(__name__="__main__", __doc__=None, __package__=None, __loader__=None, __spec__=None)
        self.names["__builtins__"] = builtins

    def reset(self):
        self.clear()
        for statement in self.imports:
            exec(statement, self.names)

    def bind_import(self, statement):
        self.imports.append(statement)
        exec(statement, self.names)

    def seed(self, variables):
        for name, value in variables.items():
            if isinstance(value, dict) and list(value) == ["$bytes"]:
                import base64

                value = base64.b64decode(value["$bytes"])
            self.names[name] = value

    def cell(self, number, code, fails=None, inputs=(), calls=()):
        """Run a cell as the session did. `fails` is the exception that ended it there."""
        code = code[1:]
        filename = f"<cell {number}>"
        linecache.cache[filename] = len(code), None, [line + "\n" for line in code.split("\n")], filename
        self.inputs = collections.deque(inputs)
        self.calls = list(calls)
        failed = None
        try:
            value = self.evaluate(code, filename)
            if value is not None:
                sys.stdout.show(self.text(value))
                del value
        except BaseException as error:
            failed = type(error).__name__
            self.explain(error)
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
        sys.stdout.flush()
        if failed != fails:
            self.differs = True
            print(f"cell {number}: it was {fails or 'a success'}, is {failed or 'a success'}", file=sys.stderr)

    def evaluate(self, code, filename):
        try:
            tree = self.parse(code, filename)
        except SyntaxError:
            lines = textwrap.dedent(code).split("\n")
            meant = "\n".join(["pass" if line.startswith("%matplotlib") else line for line in lines])
            if meant == code:
                raise
            tree = self.parse(meant, filename)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        value = self.execute(compile(tree, filename, "exec", self.flags, True))
        if last is not None:
            value = self.execute(compile(ast.Expression(last.value), filename, "eval", self.flags, True))
        return value

    def parse(self, code, filename):
        return compile(code, filename, "exec", self.flags | ast.PyCF_ONLY_AST, True)

    def execute(self, code):
        import __future__

        self.flags |= code.co_flags & __future__.annotations.compiler_flag
        value = eval(code, self.names)
        if code.co_flags & inspect.CO_COROUTINE:
            if self.loop is None or self.loop.is_closed():
                self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
            value = self.loop.run_until_complete(value)
        return value

    def explain(self, error):
        trace = error.__traceback__
        while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<cell "):
            trace = trace.tb_next
        if sys.stdout.mid_line:
            sys.stdout.show("")
        traceback.print_exception(type(error), error, trace)

    def text(self, value):
        if type(value) is int and value.bit_length() > 14_000:  # Python refuses to write it
            return f"<int of about {int(value.bit_length() * 0.30103) + 1} digits>"
        try:
            return repr(value)
        except Exception as error:
            return f"<unrepresentable {type(value).__name__}: {error!r}>"

    def display(self, *values, **options):
        for value in values:
            pictures = [getattr(value, name)() for name in _PICTURES if hasattr(type(value), name)]
            if type(value).__name__ == "Figure" or any(picture is not None for picture in pictures):
                print(f"[a picture: {self.text(value)}]", file=sys.stderr)
            else:
                sys.stdout.show(self.text(value))

    def input(self, prompt="", /):
        if not self.inputs:
            raise EOFError("no answer was recorded")
        text, reason = self.inputs.popleft()
        if text is None:
            raise EOFError(reason)
        return text

    def read_output(self, *args, **options):
        raise LookupError("read_output() is only there in a session")

    def check(self, basis):
        """Whether the cells still give what the answer of the run stands on."""
        missing = [part for part in basis if part not in sys.stdout.written.getvalue()]
        if missing:
            self.differs = True
            print(f"the answer of the run stands on {', '.join(missing)}, which did not come out this time", file=sys.stderr)

    def end(self):
        sys.stdout.flush()
        if self.own_place is not None:
            os.chdir("/")
            try:
                os.rmdir(self.own_place)
            except OSError:
                print(f"files are in {self.own_place}", file=sys.stderr)
        sys.exit(1 if self.differs else 0)


_PICTURES = ("_repr_png_", "_repr_jpeg_", "_repr_svg_")
