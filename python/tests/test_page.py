"""The blocks of docs/python.md and of the READMEs run, and print what their comments say."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from .test_agent import COUNT, FakeModel
from .test_remote_agents import ServedModel

ROOT = Path(__file__).parents[2]
PROMISE = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)


def blocks(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def endpoint(monkeypatch):
    read, drop = "```python\ndf = [1, 2, 3]\n```", "```python\ndf.pop()\n```"
    branches = [read, "Read.", drop, "Dropped.", "3", "month, price"]
    model = FakeModel("3", "July", "Sent.", *branches, COUNT, "2")
    monkeypatch.setenv("CELLBLOCK_BASE_URL", model.url)
    monkeypatch.setenv("CELLBLOCK_AGENT_FORMAT", "markdown")
    monkeypatch.setenv("CELLBLOCK_API_KEY", "none")


@pytest.fixture
def address(tmp_path):
    """The address of a server, for the blocks that need one."""
    served = ServedModel(tmp_path, "```python\ndegrees('Oslo')['now']\n```", "4.5")
    yield served.remote.url
    served.close()


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "python/README.md"])
def test_every_block_prints_what_its_comments_say(page, address, endpoint):
    if not (ROOT / page).exists():
        pytest.skip("the page is not here")
    names = {"__name__": "page", "address": address}
    found = blocks(ROOT / page)
    assert found
    for block in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, page, "exec", dont_inherit=True), names)
        promised = [text.strip() for text in PROMISE.findall(block)]
        lines = [line for line in printed.getvalue().splitlines() if line != "success"]
        assert lines == promised


def test_every_public_name_has_words():
    import inspect

    import cellblock

    silent = []
    for name in cellblock.__all__:
        thing = getattr(cellblock, name)
        if name.startswith("_") or name == "Event":
            continue
        if not inspect.getdoc(thing):
            silent.append(name)
        if inspect.isclass(thing) and thing.__module__.startswith("cellblock"):
            for member, value in vars(thing).items():
                if not member.startswith("_") and callable(value) and not inspect.getdoc(value):
                    silent.append(f"{name}.{member}")
    assert silent == []


def test_the_api_reference_is_that_of_the_docstrings():
    import subprocess
    import sys

    program = ROOT / "python" / "api-reference"
    checked = subprocess.run([sys.executable, program, "--check"], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
