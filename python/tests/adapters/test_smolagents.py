"""smolagents: its `CodeAgent`, with a model that says what it is told to, runs in a session."""

import pytest
from smolagents import CodeAgent, tool
from smolagents.local_python_executor import InterpreterError
from smolagents.models import ChatMessage, MessageRole, Model

from cellblock import Host, Limits, Session, WrongValue
from cellblock.smolagents import CellblockExecutor

HOST = Host(packages="none")


class ScriptedModel(Model):
    """Answers with these pieces of code, one after the other, and remembers what it was shown."""

    def __init__(self, *codes):
        super().__init__(model_id="scripted")
        self.codes = list(codes)
        self.seen = []

    def generate(self, messages, **options):
        self.seen.append("\n".join(part["text"] for message in messages for part in message.content if "text" in part))
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: next\n<code>\n{self.codes.pop(0)}\n</code>")


@tool
def degrees(city: str, unit: str = "C") -> dict:
    """Degrees in a city.

    Args:
        city: The city.
        unit: C or F.
    """
    if city == "Nowhere":
        raise ValueError("there is no such city")
    return {"city": city, "now": 4.5, "unit": unit}


@pytest.fixture
def executor():
    made = CellblockExecutor(host=HOST)
    yield made
    made.cleanup()


def agent_with(executor, *codes, **options):
    model = ScriptedModel(*codes)
    return CodeAgent(tools=[degrees], model=model, executor=executor, verbosity_level=0, **options), model


def test_an_agent_keeps_its_variables_and_calls_tools_of_this_process(executor):
    agent, model = agent_with(
        executor,
        "warm = degrees('Oslo')['now']\nprint('got', warm)\nwarm * 2",
        "final_answer((warm, {'unit': degrees(city='Rome', unit='F')['unit']}))",
    )
    assert agent.run("How warm?") == (4.5, {"unit": "F"})
    assert "got 4.5" in model.seen[1]
    assert "Last output from code snippet:\n9.0" in model.seen[1]


def test_a_step_that_fails_is_shown_to_the_model_with_its_output_and_line(executor):
    agent, model = agent_with(executor, "n = 3\nprint('before')\nn / 0", "final_answer(n)")
    assert agent.run("Divide.") == 3
    assert "before" in model.seen[1]
    assert "ZeroDivisionError: division by zero" in model.seen[1]


def test_a_crash_loses_no_variable(executor):
    agent, model = agent_with(executor, "n = 3", "import os; os.kill(os.getpid(), 11)", "final_answer(n)")
    assert agent.run("Crash.") == 3
    assert "crashed" in model.seen[2]


def test_a_tool_that_raises_raises_in_the_code(executor):
    agent, model = agent_with(executor, "degrees('Nowhere')", "final_answer('gave up')")
    assert agent.run("Where?") == "gave up"
    assert "there is no such city" in model.seen[1]


def test_final_answer_ends_the_step_whatever_the_code_catches(executor):
    agent, _ = agent_with(executor, "try:\n    final_answer(1)\nexcept Exception:\n    pass\nfinal_answer(2)")
    assert agent.run("Once.") == 1


def test_variables_of_the_agent_are_there(executor):
    agent, _ = agent_with(executor, "final_answer(sum(rows))")
    assert agent.run("Add.", additional_args={"rows": [1, 2, 3]}) == 6


def test_a_long_answer_and_one_of_a_class_cross(executor):
    agent, _ = agent_with(executor, "final_answer(list(range(200_000)))")
    assert agent.run("Count.") == list(range(200_000))
    agent, _ = agent_with(executor, "class P:\n    def __repr__(self): return '<point>'\nfinal_answer(P())")
    assert agent.run("Point.") == "<point>"


def test_a_managed_agent_is_called_from_the_code(executor):
    with Session(host=HOST) as other:
        helper, _ = agent_with(CellblockExecutor(other), "final_answer('it is ' + str(6 * 7))")
        helper.name, helper.description = "helper", "Computes."
        model = ScriptedModel("final_answer(helper('What is 6 * 7?')[-200:])")
        boss = CodeAgent(tools=[], model=model, managed_agents=[helper], executor=executor, verbosity_level=0)
        assert "it is 42" in boss.run("Ask the helper.")
        assert other.is_open


def test_the_executor_by_itself(executor):
    executor.send_variables({"n": 3})
    assert executor("print(n)\nn + 1") == type(executor("None"))(output=4, logs="3\n", is_final_answer=False)
    assert executor("x = 1").output is None
    with pytest.raises(InterpreterError, match="NameError: name 'missing' is not defined"):
        executor("missing")
    with pytest.raises(WrongValue, match="cannot cross"):
        executor.send_variables({"file": object()})
    with pytest.raises(TypeError, match="not both"):
        CellblockExecutor(executor.session, host=HOST)
    executor.cleanup()
    assert not executor.session.is_open


def test_a_step_that_never_ends_is_ended():
    executor = CellblockExecutor(host=HOST, limits=Limits(wall=1))
    with pytest.raises(InterpreterError, match="timeout"):
        executor("while True: pass")
    assert executor("1 + 1").output == 2
    executor.cleanup()
