"""Agents and templates, with an endpoint that says what it was told to say. The code really runs."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import cellblock
from cellblock import Agent, AgentFailed, AsyncAgent, template

from .conftest import HOST

limit = 1  # seen by templates of this module
unseen = object()


class FakeModel:
    """An endpoint that speaks the OpenAI protocol: says these texts or messages in turn, then the last one again and again."""

    def __init__(self, *texts: str | dict) -> None:
        self.asked: list[dict] = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                text = texts[min(len(model.asked), len(texts) - 1)]
                model.asked.append(request)
                usage = {"prompt_tokens": 100, "completion_tokens": 10}
                chunks = [
                    {"choices": [{"index": 0, "delta": {"content": text} if isinstance(text, str) else text}]},
                    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage},
                ]
                body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def options(self) -> dict:
        return {"model": "fake", "base_url": self.url, "format": "markdown", "host": HOST}


def ask(flavour, model, question, **more):
    options = {**model.options(), **more.pop("options", {})}
    if flavour.name == "sync":
        return Agent(**options).ask(question, **more)
    return flavour.loop.run_until_complete(AsyncAgent(**options).ask(question, **more))


def test_an_answer_is_computed_and_typed(flavour):
    model = FakeModel("I add.\n```python\nsum(numbers)\n```", "6")
    outcome = ask(flavour, model, "- What is the sum?", returns=int, seed={"numbers": [1, 2, 3]})
    assert (outcome.ok, outcome.answer, outcome.status, len(outcome.steps)) == (True, 6, "answered", 1)
    assert outcome.check() == 6
    assert outcome.usage["input_tokens"] == 200


def test_files_go_into_the_workspace(flavour, tmp_path):
    (tmp_path / "numbers.csv").write_text("1\n2\n")
    model = FakeModel("```python\nsum(map(int, open('numbers.csv')))\n```", "3")
    assert ask(flavour, model, "Sum?", returns=int, files=[tmp_path / "numbers.csv"]).answer == 3


def test_a_run_without_an_answer_is_an_outcome_too(flavour):
    model = FakeModel("```python\nprint(1)\n```")
    outcome = ask(flavour, model, "?", options={"max_steps": 2})
    assert (outcome.ok, outcome.status, outcome.answer) == (False, "max_steps", None)
    with pytest.raises(AgentFailed, match="max_steps") as caught:
        outcome.check()
    assert caught.value.outcome is outcome


def test_events_come_while_it_runs(flavour):
    model = FakeModel("I print.\n```python\nprint('hi')\n```", "done")
    if flavour.name == "sync":
        events = list(Agent(**model.options()).stream("?"))
    else:

        async def collect():
            return [event async for event in AsyncAgent(**model.options()).stream("?")]

        events = flavour.loop.run_until_complete(collect())
    kinds = [event.kind for event in events]
    assert kinds[0] == "begun" and kinds[-1] == "outcome"
    assert {"thought", "code", "cell", "answer"} <= set(kinds)


@pytest.mark.parametrize(
    ("question", "more", "error", "message"),
    [
        ("  ", {}, cellblock.Refused, "the question is empty"),
        ("?", {"options": {"format": "nonsense"}}, cellblock.Refused, "nonsense"),
        ("?", {"files": ["/no/such/file"]}, cellblock.CellblockError, "/no/such/file"),
        ("?", {"seed": {"f": (1, 2)}}, cellblock.WrongValue, "variables are JSON values"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(flavour, question, more, error, message):
    with pytest.raises(error, match=message):
        ask(flavour, FakeModel("1"), question, **more)


COUNT = """```python
from statistics import mean, pstdev
sum(abs(r - mean(readings)) > limit * pstdev(readings) for r in readings)
```"""


def test_a_template_counts_two_outliers_with_a_name_of_its_scope():
    model = FakeModel(COUNT, "2")

    @template(**model.options())
    def outliers(readings: list[float]) -> int:
        """How many of the numbers in `readings` lie more than `limit` population standard deviations from their mean?"""

    assert outliers([12, 19, 23, 31, 8, 27]) == 2
    assert outliers.run([12, 19, 23, 31, 8, 27]).answer == 2
    assert outliers.__name__ == "outliers"


def test_an_async_template_is_awaited():
    model = FakeModel(COUNT, "2")
    scope_of_this_function = {"a": None}

    @template(**model.options())
    async def outliers(readings: list[float]) -> int:
        """How many of `readings` lie far from their mean?"""

    assert asyncio.run(outliers([12, 19, 23, 31, 8, 27])) == 2
    assert scope_of_this_function


def test_a_template_sees_the_scope_it_was_defined_in_and_not_its_callers():
    model = FakeModel("```python\nsorted(n for n in dir() if n in ('limit', 'inner', 'outer', 'word'))\n```", '["inner"]')
    inner = 3

    @template(**model.options())
    def names(word: str) -> list[str]:
        """Which names are there?"""

    def caller():
        outer = 4
        return names.run("w"), outer

    outcome, _ = caller()
    shown = json.dumps(outcome.raw["steps"])
    assert "'inner', 'limit', 'word'" in shown
    assert inner == 3


def test_arguments_and_answers_of_a_template_are_checked():
    model = FakeModel("two", "2", "3")

    @template(code=False, **model.options())
    def count(words: list[str], most: int | None = None) -> int:
        """How many words are in `words`?"""

    with pytest.raises(cellblock.WrongValue, match="count: words"):
        count("not a list")
    with pytest.raises(TypeError):
        count()
    assert count(["a", "b"]) == 2
    with pytest.raises(TypeError, match="no docstring"):

        @template
        def nothing() -> int: ...
