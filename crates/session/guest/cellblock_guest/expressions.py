"""What `compute` accepts: one expression, over harmless builtins, views of some modules, and the session's variables.

This is a fence, not a wall: it turns a model's attempt to do more than compute into a message that says so. The walls are around
the process.
"""

from __future__ import annotations

import sys

from . import BUILTINS
from . import BUILTINS as __builtins__
from .libraries import modules as loaded_modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

MODULES = (
    "math",
    "re",
    "json",
    "datetime",
    "decimal",
    "fractions",
    "statistics",
    "itertools",
    "functools",
    "collections",
    "string",
    "random",
    "textwrap",
    "unicodedata",
    "base64",
    "hashlib",
)
_BUILTINS = """
    len str int float list dict tuple set frozenset bool complex bytes reversed sorted enumerate sum max min abs round range zip
    map filter any all divmod pow ord chr hex oct bin repr format iter next slice isinstance hash
""".split()
_NODES = """
    Expression BoolOp BinOp UnaryOp Lambda IfExp Dict Set ListComp SetComp DictComp GeneratorExp comprehension Compare Call
    FormattedValue JoinedStr Constant Attribute Subscript Starred Name List Tuple Slice Load Store arguments arg keyword
    And Or Not Add Sub Mult MatMult Div Mod Pow LShift RShift BitOr BitXor BitAnd FloorDiv Invert UAdd USub
    Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn
""".split()
_PREFIXES = ("_", "gi_", "cr_", "ag_", "f_", "tb_", "co_")
# Public names that would still lead out: they copy attributes by name, or format without our check.
_LEFT_OUT = {
    "functools": (
        "update_wrapper",
        "wraps",
        "singledispatch",
        "singledispatchmethod",
        "total_ordering",
        "cached_property",
    ),
    "string": ("Formatter",),
    "collections": ("UserString",),
    "hashlib": ("file_digest",),
}
_GUARD = "__guarded__"
NO_IMPORTS = f"imports are not available in compute; these modules are there without: {', '.join(MODULES)}"
ONE_EXPRESSION = "compute takes one expression, no statements; use execute_python_code for anything else"


class Refused(Exception):
    """An expression that is not to be run. `kind` is the exception type to report."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def prepare(source: str) -> None:
    """Import what the expression may need, in the session, so that it is there for the next one too."""
    for name in ("ast", "pickle", *MODULES):
        if name in source or name in ("ast", "pickle"):
            __import__(name)


def compile_expression(source: str) -> tuple[CodeType, set[str]]:
    """The code of an expression and the names it asks for. Raises `SyntaxError` or `Refused`; nothing has been run then."""
    import ast

    if not source:
        raise Refused("SyntaxError", f"there is no expression; {ONE_EXPRESSION}")
    try:
        tree = ast.parse(source, "<compute>", "eval")
    except SyntaxError as error:
        statement = _first_statement(source)
        if statement is not None:
            raise _refusal_of(statement) from None
        raise error
    except MemoryError:  # what the parser says when its stack is full
        raise Refused("SyntaxError", "the expression is nested too deeply") from None
    names: set[str] = set()
    for node in ast.walk(tree):
        _check(node)
        if type(node) is ast.Name:
            names.add(node.id)
    guarded: Any = ast.fix_missing_locations(_guard_format(tree))
    return compile(guarded, "<compute>", "eval"), names


def scope(names: set[str], namespace: dict[str, Any], extra: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Values for the names of an expression: the session's variables first, as in a cell, then what compute itself offers."""
    # The library itself imports on demand, from C (`strftime`); an expression cannot name `__import__`.
    found: dict[str, Any] = {"__builtins__": {"__import__": __import__}, _GUARD: _guarded}
    kind = type(sys)
    for name in names - {"_"}:
        if name in namespace and type(namespace[name]) is not kind:
            found[name] = namespace[name]
        elif name == "print":
            raise Refused("NameError", "print is not needed in compute: write the expression alone, its value is the result")
        elif name in extra:
            found[name] = extra[name]()
        elif name in _BUILTINS:
            found[name] = BUILTINS[name]
        elif name in _OWN:
            found[name] = _OWN[name]
        elif name in MODULES:
            found[name] = View(name)
        elif (home := _home_of(name)) is not None and name not in namespace:
            found[name] = getattr(View(home), name)
        elif name in namespace:
            raise Refused("ImportError", f"{name!r} is a module of the session; {NO_IMPORTS}")
        elif name in BUILTINS:
            raise Refused("NameError", f"{name!r} is not available in compute; use execute_python_code")
    return found


def _home_of(name: str) -> str | None:
    """The module that has a public name: `sqrt` is of math, `Decimal` of decimal. The first of several modules counts."""
    if name in BUILTINS:
        return None
    for module in MODULES:
        view = View(module)
        if name in vars(view) and name != "__name__":
            return module
    return None


class View:
    """The public names of a module that are no modules themselves."""

    def __init__(self, name: str) -> None:
        module = loaded_modules.get(name) or __import__(name)
        kind = type(sys)
        public = getattr(module, "__all__", None) or [word for word in dir(module) if word[:1] != "_"]
        hidden = _LEFT_OUT.get(name, ())
        members = {word: getattr(module, word, None) for word in public if word not in hidden}
        vars(self).update({word: value for word, value in members.items() if type(value) is not kind})
        vars(self)["__name__"] = name

    def __getattr__(self, word: str) -> Any:
        raise AttributeError(f"{vars(self)['__name__']} has no {word!r} in compute")

    def __repr__(self) -> str:
        return f"<{vars(self)['__name__']}: its functions and classes>"


def _first_statement(source: str) -> ast.stmt | None:
    import ast

    try:
        body = ast.parse(source).body
    except SyntaxError:
        return None
    return next((node for node in body if type(node) is not ast.Expr), body[0] if body else None)


def _refusal_of(statement: ast.stmt) -> Refused:
    kind = type(statement).__name__
    if kind in ("Import", "ImportFrom"):
        return Refused("ImportError", f"{NO_IMPORTS}. {ONE_EXPRESSION}")
    what = "several expressions" if kind == "Expr" else f"a statement ({kind})"
    return Refused("SyntaxError", f"this is {what}, line {statement.lineno}: {ONE_EXPRESSION}")


def _check(node: ast.AST) -> None:
    kind = type(node).__name__
    if kind == "NamedExpr":
        raise Refused("SyntaxError", "':=' is not available in compute; use execute_python_code to bind names")
    if kind not in _NODES or getattr(node, "is_async", False):
        raise Refused("SyntaxError", f"{kind} is not available in compute; use execute_python_code")
    if kind == "Name":
        _check_name(node.id)  # type: ignore[attr-defined]
    elif kind in ("arg", "keyword"):
        _check_name(node.arg or "")  # type: ignore[attr-defined]
    elif kind == "Attribute":
        name: str = node.attr  # type: ignore[attr-defined]
        if name.startswith(_PREFIXES) or name == "mro":
            raise Refused("AttributeError", f"the attribute {name!r} is not available in compute")


def _check_name(name: str) -> None:
    if name == "__import__":
        raise Refused("ImportError", NO_IMPORTS)
    if name.startswith("_") and name != "_":  # `for _ in range(3)` is harmless
        raise Refused("NameError", f"names that begin with an underscore are not available in compute: {name!r}")


def _guard_format(tree: ast.Expression) -> ast.AST:
    """`x.format` becomes `__guarded__(x, "format")`, wherever it stands: format strings can read attributes."""
    import ast

    class Guard(ast.NodeTransformer):
        def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
            self.generic_visit(node)
            if node.attr not in ("format", "format_map"):
                return node
            call = ast.Call(ast.Name(_GUARD, ast.Load()), [node.value, ast.Constant(node.attr)], [])
            return ast.copy_location(call, node)

    return Guard().visit(tree)  # type: ignore[no-any-return]


def _guarded(value: Any, method: str) -> Any:
    original = getattr(value, method)
    if isinstance(value, str):
        _check_template(value)
        return original
    if isinstance(value, type) and issubclass(value, str):

        def unbound(template: str, *args: Any, **kwargs: Any) -> str:
            _check_template(template)
            text: str = original(template, *args, **kwargs)
            return text

        return unbound
    return original


def _check_template(template: str) -> None:
    from _string import formatter_field_name_split, formatter_parser  # type: ignore[import-not-found]

    for _, field, specification, _ in formatter_parser(template):
        for is_attribute, key in formatter_field_name_split(field)[1] if field else ():
            if is_attribute or str(key).startswith("_"):
                raise Refused("AttributeError", f"attributes are not available in format fields: {field!r}")
        if specification:
            _check_template(specification)


def _type(value: Any, *more: Any) -> type:
    if more:
        raise TypeError("type() takes one argument in compute")
    if isinstance(value, type):
        raise TypeError("type() of a class is not available in compute")
    return type(value)


_OWN: dict[str, Any] = {"type": _type}
