"""What a run of an agent asks its caller for: tools, approvals, other templates. The code really runs."""

import asyncio
import threading

import pytest

import cellblock
from cellblock import Agent, Approve, AsyncAgent, template, tool

from .test_agent import FakeModel, ask

limit = 1  # seen by templates of this module


def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


def test_code_of_a_run_calls_functions_of_this_process(flavour):
    seen = []

    def note(word: str) -> str:
        """Notes a word."""
        seen.append((word, threading.get_ident()))
        return word.upper()

    model = FakeModel("```python\nnote(word='a') + str(double(n=21))\n```", "A42")
    outcome = ask(flavour, model, "?", options={"tools": [note, double]})
    assert (outcome.answer, [word for word, _ in seen]) == ("A42", ["a"])
    assert "A42" in str(outcome.raw["steps"])


def test_an_async_tool_runs_on_the_callers_loop():
    async def main():
        loop = asyncio.get_running_loop()

        async def ahead(n: int) -> int:
            """One more."""
            assert asyncio.get_running_loop() is loop
            return n + 1

        model = FakeModel("```python\nahead(n=1)\n```", "2")
        return await AsyncAgent(**model.options(), tools=[ahead]).ask("?", returns=int)

    assert asyncio.run(main()).answer == 2


def test_a_tool_that_raises_is_an_error_of_the_code_and_not_of_the_run(flavour):
    def broken() -> int:
        """Breaks."""
        raise ValueError("no such luck")

    code = "```python\ntry:\n    broken()\nexcept Exception as error:\n    print(error)\n```"
    outcome = ask(flavour, FakeModel(code, "done"), "?", options={"tools": [broken]})
    assert outcome.ok and "ValueError: no such luck" in str(outcome.raw["steps"])


def test_a_tool_that_changes_something_is_asked_about_in_this_process(flavour):
    sent, asked = [], []

    @tool(changes=True)
    def send(text: str) -> str:
        """Sends a text."""
        sent.append(text)
        return "sent"

    def approve(call):
        asked.append((call.name, call.arguments, call.changes))
        return Approve.edit(text="edited") if call.arguments["text"] == "a" else Approve.reject("not this one")

    code = "```python\nprint(send(text='a'))\ntry:\n    send(text='b')\nexcept Exception as e:\n    print(e)\n```"
    outcome = ask(flavour, FakeModel(code, "done"), "?", options={"tools": [send], "approve": approve})
    assert outcome.ok and sent == ["edited"] and "not this one" in str(outcome.raw["steps"])
    assert asked == [("send", {"text": "a"}, True), ("send", {"text": "b"}, True)]


def test_the_execution_of_code_is_asked_about_where_the_policy_says_so(flavour, tmp_path):
    asked = []
    config = tmp_path / "config.toml"
    config.write_text('[approval]\nmode = "code"\n')

    def approve(call):
        asked.append(call.name)
        if len(asked) == 1:
            raise RuntimeError("the approval broke")
        return True

    model = FakeModel("```python\nprint(6 * 7)\n```", "```python\nprint(6 * 7)\n```", "42")
    outcome = ask(flavour, model, "?", options={"approve": approve, "config": config})
    assert outcome.answer == "42" and asked == ["execute_python_code"] * 2
    assert "the approval broke" in str(model.asked[1])


def test_a_chat_remembers_words_and_variables(flavour):
    model = FakeModel("```python\nx = 41\n```", "kept", "```python\nx + 1\n```", "42")
    if flavour.name == "sync":
        with Agent(**model.options()).chat(seed={"y": 1}) as chat:
            assert chat.ask("Keep 41 as x.").answer == "kept"
            assert chat.ask("One more?").answer == "42"
    else:

        async def main():
            async with AsyncAgent(**model.options()).chat(seed={"y": 1}) as chat:
                first = await chat.ask("Keep 41 as x.")
                return first.answer, (await chat.ask("One more?")).answer

        assert flavour.loop.run_until_complete(main()) == ("kept", "42")
    assert "Keep 41 as x." in str(model.asked[-1])


def test_a_dropped_stream_ends_its_run():
    model = FakeModel("```python\nimport time\ntime.sleep(60)\n```", "1")
    events = Agent(**model.options()).stream("?")
    assert next(event for event in events if event.kind == "code")
    events.close()
    # The child is free for the next run.
    assert Agent(**FakeModel("7").options()).ask("?", returns=int).answer == 7


def test_what_is_wrong_about_a_run_is_said_in_words(flavour):
    with pytest.raises(cellblock.CellblockError, match=r"there is no option|unexpected argument|invalid value"):
        ask(flavour, FakeModel("1"), "?", options={"format": "nonsense"})
    with pytest.raises(cellblock.CellblockError, match=r"limits: idle"):
        ask(flavour, FakeModel("1"), "?", options={"limits": {"idle": 3}})


FETCHES = """```python
import urllib.error, urllib.request
try:
    urllib.request.urlopen('http://localhost:9/')
except urllib.error.HTTPError as error:
    print(error.read().decode())
```"""


def test_a_function_of_this_process_decides_about_hosts_that_no_rule_names(flavour):
    asked = []

    def decide(call):
        asked.append((call.name, call.arguments))
        return Approve.reject("use the file")

    outcome = ask(flavour, FakeModel(FETCHES, "no"), "?", options={"approve": decide})
    assert asked == [("reach_host", {"host": "localhost", "port": 9})]
    assert outcome.ok and "use the file" in str(outcome.raw["steps"])


CALLS_HELPER = "```python\n[double(n=r) for r in readings]\n```"


def test_functions_of_the_scope_are_tools_of_a_template():
    model = FakeModel(CALLS_HELPER, "[2, 4]")

    @template(**model.options())
    def doubled(readings: list[int]) -> list[int]:
        """Double each of `readings`."""

    outcome = doubled.run([1, 2])
    assert outcome.answer == [2, 4] and "[2, 4]" in str(outcome.raw["steps"])


def test_a_nested_template_sees_the_names_of_its_caller_and_never_the_reverse():
    inner_model = FakeModel("```python\nsorted(n for n in dir() if n in ('secret', 'word', 'own'))\n```", '["x"]')
    outer_model = FakeModel(
        "```python\nnames(own='o')\n```",
        "```python\nsorted(n for n in dir() if n in ('secret', 'word', 'own'))\n```",
        "done",
    )

    @template(**inner_model.options())
    def names(own: str) -> list[str]:
        """Which names are there?"""

    @template(**outer_model.options())
    def outer(secret: str, word: str) -> str:
        """Ask for the names."""

    outcome = outer.run("s", "w")
    steps = str(outcome.raw["steps"])
    assert "['secret', 'word']" in steps
    assert "'own', 'secret', 'word'" in str(inner_model.asked[1])


LAWS = {
    "R1": (["(n, names)"], "(3, ['a'])"),
    "R2": (
        ["import math\ndef half(x): return x / 2\nbox = [1]; alias = box", "(half(math.floor(4.9)), alias is box)"],
        "(2.0, True)",
    ),
    "R3": (["n = n + 39", "n"], "42"),
    "R4": (["a = 1\nfor i in range(3):\n    a += i\na"], "4"),
    "R5": (["print('one')", "print('two')"], "two"),
    "R6": (["n = = 1", "n"], "3"),
    "R7": (["b = 7; 1 / 0", "b"], "7"),
    "R8": (["raise KeyboardInterrupt", "n"], "3"),
    "R9": (["import json; json.loads('{')"], "JSONDecodeError"),
    "R10": (["def f():\n    return 1 / 0", "f()"], "return 1 / 0"),
    "R11": (["double(n=n)"], "6"),
    "R12": (["{'k': (n, None)}"], "{'k': (3, None)}"),
}


@pytest.mark.parametrize("law", LAWS)
def test_the_laws_of_a_session_hold_through_a_template(law):
    cells, shown = LAWS[law]
    model = FakeModel(*(f"```python\n{cell}\n```" for cell in cells), '"end"')

    @template(**model.options())
    def work(n: int, names: list[str]) -> str:
        """Work with `n` and `names`."""

    outcome = work.run(3, ["a"])
    assert outcome.ok and len(outcome.steps) == len(cells), outcome.raw
    assert shown in model.asked[-1]["messages"][-1]["content"]
