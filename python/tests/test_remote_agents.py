"""Agents and templates of a real server, `cellblock serve`, with an endpoint that says what it was told to say."""

import re
import threading

import pytest

import cellblock
from cellblock import Agent, Approve, AsyncAgent, Remote, template

from .test_agent import FakeModel
from .test_remote import started


class ServedModel:
    """A server whose model says these texts in turn."""

    def __init__(self, home, *texts, options=()):
        self.model = FakeModel(*texts)
        words = ("--model", "fake", "--base-url", self.model.url, "--format", "markdown", *options)
        self._child, said = started(home, "--no-auth", *words)
        self.remote = Remote(re.search(r"http://[0-9.:]+", said).group())

    def kill(self):
        self._child.kill()

    def close(self):
        self.remote.close()
        self._child.terminate()
        self._child.wait(60)


@pytest.fixture
def served(tmp_path):
    """Starts servers that end with the test."""
    made = []

    def start(*texts, options=()):
        one = ServedModel(tmp_path / str(len(made)), *texts, options=options)
        made.append(one)
        return one

    yield start
    for one in made:
        one.close()


def agent_of(flavour, served, **options):
    return (Agent if flavour.name == "sync" else AsyncAgent)(host=served.remote, **options)


def waited(flavour, made):
    return made if flavour.name == "sync" else flavour.loop.run_until_complete(made)


def collected(flavour, events):
    if flavour.name == "sync":
        return list(events)

    async def collect():
        return [event async for event in events]

    return flavour.loop.run_until_complete(collect())


def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


def test_the_agent_of_a_server_computes_with_variables_files_and_functions_of_this_process(flavour, served, tmp_path):
    (tmp_path / "a b.txt").write_text("20")
    one = served("I add.\n```python\ndouble(n=n) + int(open('a b.txt').read())\n```", "42")
    agent = agent_of(flavour, one, tools=[double])
    outcome = waited(flavour, agent.ask("What is it?", returns=int, seed={"n": 11}, files=[tmp_path / "a b.txt"]))
    assert (outcome.ok, outcome.answer, len(outcome.steps)) == (True, 42, 1)
    assert outcome.steps[0]["actions"] and outcome.usage["input_tokens"] == 200
    assert "Files in the workspace: a b.txt" in str(one.model.asked[0]["messages"])


def test_events_of_a_server_are_those_of_this_machine(flavour, served):
    one = served("I print.\n```python\nprint('hi')\n```", "done")
    events = collected(flavour, agent_of(flavour, one).stream("?"))
    kinds = [event.kind for event in events]
    assert kinds[0] == "begun" and kinds[-1] == "outcome"
    assert {"thought", "code", "cell", "answer"} <= set(kinds)
    assert not {"session", "approval", "approval_decided"} & set(kinds)
    assert events[-1].data["outcome"]["answer"] == "done"


def test_a_run_on_a_server_has_limits_of_its_own_below_those_of_the_server(flavour, served):
    again = "Once more.\n```python\n1\n```"
    one = served(*[again] * 3, "last", options=("--max-steps", "2"))
    short = waited(flavour, agent_of(flavour, one, max_steps=1).ask("?"))
    assert (short.status, len(short.steps)) == ("max_steps", 1)
    # More than the server allows is not to be had.
    long = waited(flavour, agent_of(flavour, one, max_steps=50).ask("?"))
    assert (long.status, len(long.steps)) == ("max_steps", 2)
    with pytest.raises(cellblock.Refused, match="max_time"):
        waited(flavour, agent_of(flavour, one, max_time="soon").ask("?"))


def test_a_chat_of_a_server_keeps_its_variables_and_its_tools(flavour, served):
    one = served("```python\nx = double(n=n)\n```", "set", "```python\ndouble(n=x)\n```", "84")
    chat = agent_of(flavour, one, tools=[double]).chat(seed={"n": 21})
    assert waited(flavour, chat.ask("Set x.")).answer == "set"
    assert waited(flavour, chat.ask("Twice x?")).answer == "84"
    assert "84" in str(one.model.asked[-1]["messages"][-1])
    waited(flavour, chat.close())
    with pytest.raises(cellblock.Ended):
        waited(flavour, chat.ask("And now?"))


def test_a_template_of_a_server_counts_with_names_and_functions_of_its_scope(flavour, served):
    one = served("```python\ndouble(n=len(readings)) + limit\n```", "5")
    scope = {"__name__": __name__, "template": template, "options": {"host": one.remote}, "limit": 1, "double": double}
    words = "def " if flavour.name == "sync" else "async def "
    exec(f"@template(**options)\n{words}count(readings: list[float]) -> int:\n    'How many?'", scope)
    assert waited(flavour, scope["count"]([1, 2])) == 5


def test_a_function_of_this_process_decides_about_calls_on_a_server(flavour, served):
    one = served("```python\nx = 1\n```", "done", "```python\nx = 1\n```", "done", options=("--approve", "all"))
    asked = []

    def approve(call):
        asked.append(call.name)
        return Approve.reject("not today")

    outcome = waited(flavour, agent_of(flavour, one, approve=approve).ask("?"))
    assert outcome.ok and asked == ["execute_python_code"]
    assert "not today" in str(one.model.asked[1]["messages"][-1])
    # Without a function the call is refused in words, and does not wait for ever.
    assert waited(flavour, agent_of(flavour, one).ask("?")).ok
    assert "decides about no calls" in str(one.model.asked[3]["messages"][-1])


def test_what_goes_wrong_in_a_tool_of_a_server_is_told_to_the_code(flavour, served):
    def broken(n: int) -> int:
        """Breaks."""
        raise ValueError("out of paper")

    one = served("```python\ntry:\n    broken(n=1)\nexcept Exception as error:\n    print(error)\n```", "no")
    assert waited(flavour, agent_of(flavour, one, tools=[broken]).ask("?")).answer == "no"
    assert "out of paper" in str(one.model.asked[1]["messages"][-1])


def test_a_run_of_a_server_that_is_dropped_is_cancelled(served):
    one = served("```python\nimport time\ntime.sleep(3600)\n```", "never")
    for event in Agent(host=one.remote).stream("?"):
        if event.kind == "code":
            break
    connection = one.remote._connect()
    status = "running"
    while status == "running":
        status = connection._json("GET", "/v1/runs")["runs"][0]["status"]
    assert status == "cancelled"


def test_a_server_that_is_killed_in_the_middle_of_a_run_is_told(flavour, served):
    one = served("```python\nimport time\ntime.sleep(3600)\n```", "never")
    agent = agent_of(flavour, one)
    threading.Timer(1.5, one.kill).start()
    with pytest.raises(cellblock.Ended, match=r"cannot be asked|ended the stream"):
        waited(flavour, agent.ask("?"))


@pytest.mark.parametrize(
    "options", [{"format": "markdown"}, {"base_url": "http://a.example"}, {"approve": "never"}, {"limits": {"wall": 1}}]
)
def test_what_the_operator_of_a_server_decides_is_refused(flavour, options):
    make = Agent if flavour.name == "sync" else AsyncAgent
    with pytest.raises(cellblock.Unsupported, match="operator of the server"):
        make(host=Remote("https://a.example"), **options)


def test_a_server_without_a_model_says_so(flavour, tmp_path):
    child, said = started(tmp_path, "--no-auth")
    remote = Remote(re.search(r"http://[0-9.:]+", said).group())
    make = Agent if flavour.name == "sync" else AsyncAgent
    with pytest.raises(cellblock.CellblockError, match="no model"):
        waited(flavour, make(host=remote).ask("?"))
    remote.close()
    child.terminate()
    child.wait(60)


def test_a_chat_of_a_server_is_taken_back_and_the_model_is_told_so(flavour, served):
    texts = ["```python\nx = 1\n```", "kept", "```python\nx = 2\n```", "changed", "```python\nprint('x is', x)\n```", "1"]
    one = served(*texts)
    chat = agent_of(flavour, one).chat()
    with pytest.raises(cellblock.Refused, match="nothing was asked"):
        waited(flavour, chat.undo())
    waited(flavour, chat.ask("Keep 1."))
    waited(flavour, chat.ask("Now 2."))
    with pytest.raises(cellblock.Refused):
        waited(flavour, chat.undo(5))
    undone = waited(flavour, chat.undo())
    assert (undone.cell, [variable.name for variable in undone.variables.changed]) == (1, ["x"])
    waited(flavour, chat.ask("What is x?"))
    told = "The user took back the last 1 cell: variables and files are as they were before."
    assert one.model.asked[4]["messages"][-1]["content"] == f"{told}\n\nWhat is x?"
    assert "x is 1" in str(one.model.asked[5]["messages"][-1])
    waited(flavour, chat.close())


def test_a_fork_of_a_chat_of_a_server_goes_its_own_way_with_its_own_calls(flavour, served):
    one = served(
        *("```python\nx = double(n=1)\n```", "kept"),
        *("```python\nx = double(n=x); print('x is', x)\n```", "4"),
        *("```python\nprint('x is', double(n=x))\n```", "8"),
        *("```python\nprint('x is', x)\n```", "4"),
        options=("--approve", "code"),
    )
    asked = []

    def approve(call):
        asked.append(call.name)
        return True

    chat = agent_of(flavour, one, tools=[double], approve=approve).chat()
    waited(flavour, chat.ask("Keep twice 1."))
    fork = waited(flavour, chat.fork())
    waited(flavour, chat.close())
    assert waited(flavour, fork.ask("Twice that.")).answer == "4"
    messages = str(one.model.asked[-1]["messages"])
    assert "x is 4" in messages and "x = double(n=1)" in messages and "Keep twice 1." in messages
    deeper = waited(flavour, fork.fork())
    assert waited(flavour, deeper.ask("And again?")).answer == "8"
    waited(flavour, deeper.close())
    assert waited(flavour, fork.ask("And here?")).answer == "4"
    assert "x is 4" in str(one.model.asked[-1]["messages"][-1])
    assert asked == ["execute_python_code", "double"] * 3 + ["execute_python_code"]
    waited(flavour, fork.close())


def test_a_tool_cannot_take_back_the_run_of_a_server_that_waits_for_it(served):
    chats, said = [], []

    def meddle() -> str:
        """Meddles."""
        for change in (chats[0].undo, chats[0].fork):
            with pytest.raises(cellblock.Busy) as busy:
                change()
            said.append(str(busy.value))
        return "no"

    one = served("```python\nmeddle()\n```", "done")
    chats.append(Agent(host=one.remote, tools=[meddle]).chat())
    assert chats[0].ask("Meddle.").answer == "done"
    assert len(said) == 2 and all("waits for the answer to a call" in text for text in said)
    chats[0].close()
