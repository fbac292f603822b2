"""The example with the outliers, with the replies of a real endpoint: `recordings/outliers.jsonl` was written by `record=`."""

import asyncio
import json
from pathlib import Path

import pytest

from cellblock import Agent, template

from .conftest import HOST
from .test_agent import FakeModel

RECORDING = Path(__file__).parent / "recordings" / "outliers.jsonl"
READINGS = [12, 19, 23, 31, 8, 27]
# A scope of its own: a template sees all plain data around its definition.
EXAMPLE = """
limit = 1
@template(**options)
def outliers(readings: list[float]) -> int:
    "How many of `readings` lie more than `limit` population standard deviations from their mean?"
"""


def exchanges():
    return [json.loads(line) for line in RECORDING.read_text().splitlines()[1:]]


def said_by_model(exchange):
    """A recorded reply, as an endpoint sends it."""
    reply = exchange["reply"]
    calls = [{"index": index, **call} for index, call in enumerate(reply.get("tool_calls", []))]
    return {"content": reply["text"], **({"tool_calls": calls} if calls else {})}


def shown_to_model(requests):
    """What the model was told beside the instructions: the question with its variables, and what came of the code."""
    return [message["content"] for request in requests for message in request["messages"] if message["role"] in ("user", "tool")]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_recorded_run_counts_two_outliers_again(kind):
    recorded = exchanges()
    model = FakeModel(*map(said_by_model, recorded))
    scope: dict = {"__name__": "example", "template": template, "options": {**model.options(), "format": "tools"}}
    exec(EXAMPLE if kind == "sync" else EXAMPLE.replace("def ", "async def "), scope)
    answer = scope["outliers"](READINGS)
    assert (answer if kind == "sync" else asyncio.run(answer)) == 2
    # The code ran anew, and the model was shown what the recorded one was shown.
    assert len(model.asked) == 2
    assert shown_to_model(model.asked[-1:]) == shown_to_model(exchange["request"] for exchange in recorded)


def test_a_run_is_recorded_and_replayed(tmp_path):
    model = FakeModel("```python\nprint(6 * 7)\n```", "42")
    recording = tmp_path / "run.jsonl"
    assert Agent(**model.options(), record=recording).ask("What is 6 * 7?", returns=int).answer == 42
    again = Agent(model=f"replay:{recording}", format="markdown", host=HOST)
    assert again.ask("What is 6 * 7?", returns=int).answer == 42
    assert len(model.asked) == 2
