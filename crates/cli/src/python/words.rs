//! The names that Python knows.

/// Keywords, the soft ones at the end.
pub(crate) const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield", "match", "case",
];

/// Built-in functions and types, and the exceptions that are most often named.
pub(crate) const BUILTINS: &[&str] = &[
    "abs", "all", "any", "bin", "bool", "bytearray", "bytes", "callable", "chr", "classmethod",
    "complex", "dict", "dir", "divmod", "enumerate", "eval", "exec", "filter", "float", "format",
    "frozenset", "getattr", "globals", "hasattr", "hash", "help", "hex", "id", "input", "int",
    "isinstance", "issubclass", "iter", "len", "list", "locals", "map", "max", "min", "next",
    "object", "oct", "open", "ord", "pow", "print", "property", "range", "repr", "reversed",
    "round", "set", "setattr", "slice", "sorted", "staticmethod", "str", "sum", "super", "tuple",
    "type", "vars", "zip", "ArithmeticError", "AssertionError", "AttributeError", "BaseException",
    "EOFError", "Exception", "FileNotFoundError", "ImportError", "IndexError", "KeyError",
    "KeyboardInterrupt", "MemoryError", "ModuleNotFoundError", "NameError", "NotImplementedError",
    "OSError", "PermissionError", "RecursionError", "RuntimeError", "StopIteration", "SyntaxError",
    "SystemExit", "TimeoutError", "TypeError", "UnicodeDecodeError", "ValueError",
    "ZeroDivisionError",
];
