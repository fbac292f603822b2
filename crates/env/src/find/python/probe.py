"""Prints one line of JSON that says what this interpreter is. Must also run on very old versions."""

import json
import os
import sys


def has(name):
    try:
        from importlib.util import find_spec

        return find_spec(name) is not None
    except Exception:
        return False


def imports(name):
    try:
        __import__(name)
        return True
    except Exception:
        return False


def executable():
    """The interpreter itself, not a link to it, a shim in front of it or a virtual environment's copy."""
    real = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    if os.path.exists(os.path.join(os.path.dirname(os.path.dirname(real)), "pyvenv.cfg")):
        name = "python%d.%d" % sys.version_info[:2]
        base = os.path.realpath(os.path.join(sys.base_prefix, "bin", name))
        if os.path.exists(base):
            return base
    return real


def answer():
    version = list(sys.version_info[:3])
    implementation = getattr(sys, "implementation", None)
    known = {"version": version, "implementation": getattr(implementation, "name", "cpython")}
    if version < [3, 10] or known["implementation"] != "cpython":
        return known

    import sysconfig

    variable = sysconfig.get_config_var
    shared_library = None
    if variable("Py_ENABLE_SHARED"):
        shared_library = os.path.join(variable("LIBDIR") or "", variable("INSTSONAME") or "")
        if not os.path.exists(shared_library):
            shared_library = None
    known["interpreter"] = {
        "executable": executable(),
        "version": dict(zip(("major", "minor", "micro"), version)),
        "base_prefix": sys.base_prefix,
        "base_exec_prefix": sys.base_exec_prefix,
        "platlibdir": sys.platlibdir,
        "platform": sysconfig.get_platform(),
        "soabi": variable("SOABI") or "",
        "stdlib": sysconfig.get_path("stdlib"),
        "platstdlib": sysconfig.get_path("platstdlib"),
        "shared_library": shared_library,
        "free_threaded": bool(variable("Py_GIL_DISABLED")),
        "modules": {
            "ctypes": imports("ctypes"),
            "ssl": imports("ssl"),
            "venv": has("venv"),
            "ensurepip": has("ensurepip"),
        },
    }
    return known


print("\n" + json.dumps(answer()))
