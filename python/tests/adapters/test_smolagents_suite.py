"""smolagents' own tests of executors, from its source package, with `CellblockExecutor` in their place.

`python/test-adapters` fetches the source package from the index and names its tests in `CELLBLOCK_SMOLAGENTS_SUITE`.
"""

import importlib.util
import os
import sys
import types
from pathlib import Path

import pytest

from cellblock import Env, Host, Session
from cellblock.smolagents import CellblockExecutor

SUITE = os.environ.get("CELLBLOCK_SMOLAGENTS_SUITE")
if SUITE is None:
    pytest.skip("python/test-adapters fetches the suite", allow_module_level=True)

HOST = Host(packages="none")
NO_INTERPRETER_OF_ITS_OWN = "a rule of smolagents' own interpreter: code here is run by CPython, behind walls"
# What differs on purpose, and why.
DIFFERENT = {
    "test_additional_authorized_imports_are_installed": "every import works; packages are named by `env`",
    "test_state_name": "the variables are in the session, not in `state`",
    "test_evaluate_assign_error": f"its wording: {NO_INTERPRETER_OF_ITS_OWN}",
    "test_function_def_recovers_source_code": "functions of the session do not cross into this process",
    "test_syntax_error_handling": "raises `InterpreterError`, as the local executor does, and not `AgentError`",
    "test_execute_image_output": "objects of classes that only the session knows become their `repr`",
}


def load(name):
    """A module of the suite. Its helper, which says whether slow tests run, is not in the source package."""
    package = types.ModuleType("smolagents_suite")
    package.__path__ = [SUITE]
    markers = types.ModuleType("smolagents_suite.utils.markers")
    markers.require_run_all = pytest.mark.skip(reason="needs services")
    helpers = types.ModuleType("smolagents_suite.utils")
    helpers.__path__ = []
    for module in (package, helpers, markers):
        sys.modules.setdefault(module.__name__, module)
    spec = importlib.util.spec_from_file_location(f"smolagents_suite.{name}", Path(SUITE) / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


local = load("test_local_python_executor")
remote = load("test_remote_executors")


@pytest.fixture(autouse=True)
def known_differences(request):
    name = request.node.originalname
    # Of these, only those with modules that are not there differ.
    is_same = name == "test_additional_authorized_imports_are_installed" and "-None" in request.node.name
    if name in DIFFERENT and not is_same:
        request.node.add_marker(pytest.mark.xfail(reason=DIFFERENT[name], strict=True))


@pytest.fixture(scope="module")
def opened():
    """Executors that are closed at the end."""
    made = []
    yield made
    for executor in made:
        executor.cleanup()


class TestAsLocalExecutor(local.TestLocalPythonExecutor):
    @pytest.fixture(autouse=True)
    def in_a_session(self, monkeypatch, opened):
        def executor(additional_authorized_imports=(), **_):
            opened.append(CellblockExecutor(host=HOST))
            return opened[-1]

        monkeypatch.setattr(local, "LocalPythonExecutor", executor)


class TestAsRemoteExecutor(remote.CommonDockerExecutorIntegration):
    @pytest.fixture(scope="class")
    def custom_executor(self):
        with Session(host=HOST, env=Env("numpy", "pillow")) as session:
            yield CellblockExecutor(session)
