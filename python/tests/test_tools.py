"""Functions of the program that code in a session calls."""

import asyncio
import contextvars
import dataclasses
import datetime
import enum
import sys
import threading
import time
from typing import Annotated, Literal

import pytest

import cellblock
from cellblock import Approve, Call, Tool, tool


@dataclasses.dataclass
class Reading:
    city: str
    degrees: float


class Colour(enum.Enum):
    RED = "red"


@tool
def weather(city: Annotated[str, "The name of the city"], unit: Literal["C", "F"] = "C") -> Reading:
    """Degrees in a city."""
    return Reading(city, 4.5 if unit == "C" else 40.1)


@tool
async def slow_double(n: int) -> int:
    """Twice the number, a moment later."""
    await asyncio.sleep(0.01)
    return 2 * n


@tool(changes=True)
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}: {text}"


def test_a_tool_is_described_by_its_function():
    assert weather.spec() == {
        "name": "weather",
        "description": "Degrees in a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The name of the city"},
                "unit": {"enum": ["C", "F"], "default": "C"},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    }
    assert weather("Oslo") == Reading("Oslo", 4.5)


def test_code_calls_tools_plain_and_async(flavour):
    session = flavour.open(tools=[weather, slow_double])
    assert session.run("weather('Oslo')['degrees']").value(float) == 4.5
    assert session.run("weather(city='Oslo', unit='F')").value(Reading) == Reading("Oslo", 40.1)
    assert session.run("slow_double(n=4)").value(int) == 8
    result = session.run("import asyncio\nawait asyncio.gather(*[tools.slow_double.aio(n=i) for i in range(5)])")
    assert result.value(list[int]) == [0, 2, 4, 6, 8]
    assert [call.outcome for call in result.tool_calls] == ["ok"] * 5


def test_arguments_arrive_as_the_types_of_the_function(flavour):
    seen = []

    def take(
        when: datetime.date, colour: Colour, pair: tuple[int, float], who: Reading | None = None, kinds: set[str] = frozenset()
    ):
        seen.append((when, colour, pair, who, kinds))

    session = flavour.open(tools=[take])
    session.run("take('2024-02-03', 'red', [1, 2], {'city': 'Oslo', 'degrees': 3}, ['a', 'a'])").check()
    assert seen == [(datetime.date(2024, 2, 3), Colour.RED, (1, 2.0), Reading("Oslo", 3.0), {"a"})]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("weather(town='Oslo')", "town"),
        ("tools.weather(city=3)", "weather: city: expected str, got 3"),
        ("weather('Oslo', unit='K')", "expected one of 'C', 'F', got 'K'"),
    ],
)
def test_wrong_arguments_are_an_error_in_the_code(flavour, call, message):
    session = flavour.open(tools=[weather])
    result = session.run(call)
    assert result.status == "failure"
    assert message in result.error.value


def test_a_tool_that_raises_raises_in_the_code_and_the_code_may_go_on(flavour):
    def broken(n: int) -> int:
        raise LookupError(f"no {n} here")

    async def broken_async(n: int) -> int:
        raise LookupError(f"no {n} there")

    def exits() -> None:
        raise SystemExit(3)

    session = flavour.open(tools=[broken, broken_async, exits])
    code = (
        "import cellblock_guest\ntry:\n    {}\nexcept Exception as error:\n    answer = type(error).__name__, str(error)\nanswer"
    )
    code = code.replace("import cellblock_guest\n", "")
    assert session.run(code.format("broken(3)")).value() == ("ToolError", "LookupError: no 3 here")
    assert session.run(code.format("broken_async(4)")).value() == ("ToolError", "LookupError: no 4 there")
    assert session.run(code.format("exits()")).value() == ("ToolError", "SystemExit: 3")


def test_a_tool_that_hangs_is_given_up(flavour):
    release = threading.Event()

    @tool(timeout=0.3)
    def hang() -> None:
        release.wait(60)

    @tool(timeout=0.3)
    async def hang_async() -> None:
        await asyncio.sleep(60)

    session = flavour.open(tools=[hang, hang_async])
    assert "did not answer within 0.3 s" in session.run("hang()").error.value
    assert "did not answer in time" in session.run("hang_async()").error.value
    release.set()
    assert session.run("1").ok


@pytest.mark.parametrize("value", [sys.stdout, object(), {"a": sys.stdout}, lambda: 1])
def test_what_cannot_cross_is_an_error_in_the_code(flavour, value):
    def give():
        return value

    result = flavour.open(tools=[give]).run("give()")
    assert result.status == "failure"
    assert "cannot cross into the session" in result.error.value


def test_an_answer_that_is_too_large_is_an_error_in_the_code(flavour):
    def give() -> str:
        return "x" * 17_000_000

    result = flavour.open(tools=[give]).run("give()")
    assert "at most 16000000 can be sent at once" in result.error.value


def test_tools_are_replaced(flavour):
    session = flavour.open(tools=[weather])
    session.set_tools([slow_double])
    assert session.run("slow_double(1)").value(int) == 2
    assert session.run("weather('Oslo')").error.type == "NameError"


def test_a_plain_tool_sees_the_context_of_the_run():
    place = contextvars.ContextVar("place", default="nowhere")

    def where() -> str:
        return place.get()

    with cellblock.Session(host=cellblock.Host(packages="none"), tools=[where]) as session:
        place.set("here")
        assert session.run("where()").value(str) == "here"


def test_async_tools_of_an_async_session_run_on_its_loop():
    async def main() -> None:
        async def loop_id() -> int:
            return id(asyncio.get_running_loop())

        async with cellblock.AsyncSession(host=cellblock.Host(packages="none"), tools=[loop_id]) as session:
            result = await session.run("loop_id()")
            assert result.value(int) == id(asyncio.get_running_loop())

    asyncio.run(main())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda *many: 1, "arguments are passed by name"),
        (dict, "its parameters are not known"),
        (3, "expected functions"),
    ],
)
def test_what_cannot_be_a_tool_is_refused(function, message):
    with pytest.raises(TypeError, match=message):
        cellblock.Session(host=cellblock.Host(packages="none"), tools=[function])


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two tools are called 'weather'"):
        cellblock.Session(tools=[weather, Tool(weather.function)])
    with pytest.raises(ValueError, match="positive number of seconds"):
        tool(timeout=0)(len)


def test_a_tool_that_changes_something_is_refused_when_nobody_can_be_asked(flavour):
    session = flavour.open(tools=[send_mail])
    result = session.run("send_mail('a', 'b')")
    assert "`send_mail` needs approval, and no person can be asked" in result.error.value


async def ask_async(call: Call) -> Approve:
    await asyncio.sleep(0.001)
    return Approve.edit(text="by a coroutine")


@pytest.mark.parametrize(
    ("approve", "outcome"),
    [
        ("allow", "sent to a: b"),
        (lambda call: True, "sent to a: b"),
        (lambda call: Approve.accept(), "sent to a: b"),
        (lambda call: Approve.edit(to="me@example.org"), "sent to me@example.org: b"),
        (lambda call: Approve.respond("not today"), "not today"),
        (ask_async, "sent to a: by a coroutine"),
        ({"send_mail": ask_async}, "sent to a: by a coroutine"),
        ({"send_mail": "allow", "*": "deny"}, "sent to a: b"),
    ],
)
def test_an_approval_lets_a_call_through_changes_it_or_answers_for_it(flavour, approve, outcome):
    session = flavour.open(tools=[send_mail], approve=approve)
    assert session.run("send_mail('a', 'b')").value(str) == outcome


def broken_approval(call: Call) -> Approve:
    raise RuntimeError("the form is gone")


@pytest.mark.parametrize(
    ("approve", "message"),
    [
        (lambda call: False, "the call was rejected"),
        (lambda call: Approve.reject(f"not to {call.arguments['to']}"), "not to a"),
        (broken_approval, "was not run, for its approval failed: RuntimeError: the form is gone"),
        (lambda call: "yes", "which is no decision"),
        (lambda call: None, "which is no decision"),
        ({"*": "deny"}, "is not allowed here"),
        ({"send_mail": "ask"}, "no person can be asked"),
        ({"send_mail": "maybe"}, "expected a function, 'allow', 'ask' or 'deny'"),
        (lambda call: Approve.edit(to=3), "send_mail: to: expected str, got 3"),
    ],
)
def test_an_approval_that_does_not_agree_lets_nothing_run(flavour, approve, message):
    ran = []

    @tool(changes=True)
    def send_mail(to: str, text: str) -> None:
        ran.append(to)

    session = flavour.open(tools=[send_mail], approve=approve)
    assert message in session.run("send_mail('a', 'b')").error.value
    assert ran == []


def test_the_clock_of_a_cell_stands_still_while_somebody_is_asked(flavour):
    def ask(call: Call) -> Approve:
        time.sleep(1.2)
        return Approve.accept()

    session = flavour.open(tools=[send_mail], approve=ask)
    assert session.run("send_mail('a', 'b')", timeout=1).ok


def test_input_is_answered_by_the_function_of_the_session(flavour):
    session = flavour.open(input=lambda prompt: f"answer to {prompt}")
    assert session.run("input('Who? ')").value(str) == "answer to Who? "


@pytest.mark.parametrize(
    ("function", "message"),
    [(None, "no person can answer input"), (lambda prompt: 1 / 0, "ZeroDivisionError"), (lambda prompt: 3, "which is no text")],
)
def test_input_that_nobody_answers_fails_at_once(flavour, function, message):
    result = flavour.open(input=function).run("input('Who? ')")
    assert (result.status, result.error.type) == ("failure", "EOFError")
    assert message in result.error.value
