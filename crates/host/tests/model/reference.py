"""What a session should hold: plain Python that runs the cells that count, one after the other, in this directory.

    reference.py < entries.json

Each entry is {"setup": code}, {"run": code}, {"seed": {name: value}} or {"reset": true}. Prints what each run printed and raised, and at the end what
the code in "last" prints.
"""

import contextlib
import io
import json
import sys
import types


def main() -> None:
    story = json.load(sys.stdin)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    names = module.__dict__
    fresh = dict(names)
    seen = []
    for entry in story["entries"]:
        if "run" in entry:
            seen.append(run(entry["run"], names))
        elif "setup" in entry:
            run(entry["setup"], names)
        elif "seed" in entry:
            names.update(entry["seed"])
        else:
            for name in [name for name in names if name not in fresh]:
                del names[name]
    print(json.dumps({"seen": seen, "last": run(story["last"], names)["stdout"]}))


def run(code: str, names: dict) -> dict:
    """One cell: it ends well or with an exception, and what it did before that stays."""
    out, error = io.StringIO(), None
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(code, "<cell>", "exec"), names)
        except BaseException as exception:
            error = type(exception).__name__
            del exception
    return {"stdout": out.getvalue(), "error": error}


main()
