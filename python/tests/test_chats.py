"""Conversations that are taken back and forked, with an endpoint that says what it was told to say. The code really runs."""

import threading
import time

import pytest

import cellblock
from cellblock import Agent, Approve, AsyncAgent, tool
from cellblock._plans import drive

from .test_agent import FakeModel

UNDONE = "The user took back the last {}: variables and files are as they were before."


def code(text):
    return f"```python\n{text}\n```"


def agent_of(flavour, model, **options):
    return (Agent if flavour.name == "sync" else AsyncAgent)(**{**model.options(), **options})


def last_words(model, number=-1):
    """The last message of a request."""
    return model.asked[number]["messages"][-1]["content"]


def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


def test_a_cell_is_taken_back_and_the_model_is_told_so(flavour):
    model = FakeModel(code("x = [1]; open('a', 'w').close()"), "kept", code("x.append(2)"), "grown", code("x"), "[1]")
    chat = agent_of(flavour, model).chat()
    flavour.wait(chat.ask("Keep a list."))
    flavour.wait(chat.ask("Add to it."))
    undone = flavour.wait(chat.undo())
    assert (undone.cell, [one.name for one in undone.variables.changed]) == (1, ["x"])
    assert flavour.wait(chat.ask("What is x?")).answer == "[1]"
    assert last_words(model, 4) == UNDONE.format("1 cell") + "\n\nWhat is x?"
    assert "[1]" in last_words(model) and "2" not in last_words(model)
    flavour.wait(chat.close())


def test_several_cells_are_taken_back_and_no_more_than_there_are(flavour):
    model = FakeModel(code("x = 1"), code("x = 2"), "two", code("'x' in dir()"), "no")
    chat = agent_of(flavour, model).chat()
    with pytest.raises(cellblock.Refused, match="nothing was asked"):
        flavour.wait(chat.undo())
    flavour.wait(chat.ask("Count."))
    for cells in (3, 0, -1):
        with pytest.raises(cellblock.Refused):
            flavour.wait(chat.undo(cells))
    assert flavour.wait(chat.undo(cells=2)).cell == 0
    flavour.wait(chat.ask("Is it there?"))
    # What failed is not told.
    assert last_words(model, 3) == UNDONE.format("2 cells") + "\n\nIs it there?"
    assert "False" in last_words(model)
    flavour.wait(chat.close())


def test_a_fork_has_the_words_and_the_variables_and_goes_its_own_way(flavour):
    model = FakeModel(
        *(code("x = [1]"), "kept"),
        *(code("x.append(2); print(x)"), "fork"),
        *(code("x.append(3); print(x)"), "fork of the fork"),
        *(code("print(x)"), "first"),
    )
    chat = agent_of(flavour, model).chat(seed={"y": 1})
    flavour.wait(chat.ask("Keep a list."))
    fork = flavour.wait(chat.fork())
    assert flavour.wait(fork.ask("Add 2.")).answer == "fork"
    assert "[1, 2]" in last_words(model) and "Keep a list." in str(model.asked[-1])
    deeper = flavour.wait(fork.fork())
    flavour.wait(chat.close())
    assert flavour.wait(deeper.ask("Add 3.")).answer == "fork of the fork"
    assert "[1, 2, 3]" in last_words(model) and "Add 2." in str(model.asked[-1])
    # A fork goes back as far as where it was made.
    assert flavour.wait(fork.undo()).cell == 0
    with pytest.raises(cellblock.Refused):
        flavour.wait(fork.undo())
    flavour.wait(deeper.close())
    flavour.wait(fork.ask("And now?"))
    assert "[1]" in last_words(model) and "Add 3." not in str(model.asked[-1])
    flavour.wait(fork.close())
    with pytest.raises(cellblock.Ended, match="closed"):
        flavour.wait(fork.ask("Still there?"))


def test_a_fork_before_the_first_question_is_a_second_chat(flavour):
    model = FakeModel(code("n"), "5", code("n"), "5")
    chat = agent_of(flavour, model).chat(seed={"n": 5})
    fork = flavour.wait(chat.fork())
    assert [flavour.wait(one.ask("n?")).answer for one in (chat, fork)] == ["5", "5"]
    for one in (chat, fork):
        flavour.wait(one.close())
        with pytest.raises(cellblock.Ended):
            flavour.wait(one.fork())


def test_tools_and_approvals_of_a_fork_are_its_own(flavour, tmp_path):
    """Also after the first chat was closed: what a fork calls carries its own name."""
    config = tmp_path / "config.toml"
    config.write_text('[approval]\nmode = "code"\n')
    asked, sent = [], []

    @tool(changes=True)
    def send(text: str) -> str:
        """Sends a text."""
        sent.append(text)
        return "sent"

    def approve(call):
        asked.append(call.name)
        return Approve.accept()

    sends = [(code(f"send(text='{word}')"), "done") for word in ("first", "fork", "deeper")]
    model = FakeModel(*(text for pair in sends for text in pair))
    chat = agent_of(flavour, model, tools=[send], approve=approve, config=config).chat()
    flavour.wait(chat.ask("Send it."))
    fork = flavour.wait(chat.fork())
    flavour.wait(chat.close())
    assert flavour.wait(fork.ask("Send it too.")).ok
    deeper = flavour.wait(fork.fork())
    flavour.wait(fork.close())
    assert flavour.wait(deeper.ask("And again.")).ok
    flavour.wait(deeper.close())
    assert sent == ["first", "fork", "deeper"]
    assert asked == ["execute_python_code", "send"] * 3


def test_two_chats_call_tools_side_by_side_and_each_gets_its_own_answers():
    arrived, go_on = threading.Event(), threading.Event()

    def slow(n: int) -> int:
        """Waits."""
        arrived.set()
        assert go_on.wait(60)
        return n

    model = FakeModel("ready", code("slow(n=7)"), code("double(n=4)"), "8", "7")
    chat = Agent(**model.options(), tools=[slow, double]).chat()
    chat.ask("Ready?")
    fork = chat.fork()
    outcomes = []
    waiting = threading.Thread(target=lambda: outcomes.append(chat.ask("Wait.")))
    waiting.start()
    assert arrived.wait(60)
    assert fork.ask("Twice 4?").answer == "8"
    assert "8" in last_words(model, 3)
    go_on.set()
    waiting.join(60)
    assert [outcome.answer for outcome in outcomes] == ["7"] and "7" in last_words(model, 4)
    chat.close()
    fork.close()


def test_a_tool_cannot_take_back_the_run_that_waits_for_it(flavour):
    chats, said = [], []

    async def meddle_async() -> str:
        """Meddles."""
        for change in (chats[0].undo, chats[0].fork):
            try:
                await change()
            except cellblock.Busy as busy:
                said.append(str(busy))
        return "no"

    def meddle() -> str:
        """Meddles."""
        for change in (chats[0].undo, chats[0].fork):
            try:
                change()
            except cellblock.Busy as busy:
                said.append(str(busy))
        return "no"

    meddling = tool(name="meddle")(meddle if flavour.name == "sync" else meddle_async)
    model = FakeModel(code("meddle()"), "done")
    chats.append(agent_of(flavour, model, tools=[meddling]).chat())
    assert flavour.wait(chats[0].ask("Meddle.")).answer == "done"
    assert len(said) == 2 and all("waits for the answer to a call" in text for text in said)
    flavour.wait(chats[0].close())


def test_a_tool_cannot_ask_the_chat_whose_run_waits_for_it(flavour):
    chats, said = [], []

    def note(error: cellblock.Busy) -> str:
        said.append(str(error))
        return "no"

    @tool(timeout=20)
    async def ask_async() -> str:
        """Asks."""
        try:
            return str((await chats[0].ask("And you?")).answer)
        except cellblock.Busy as error:
            return note(error)

    @tool(timeout=20)
    def ask() -> str:
        """Asks."""
        try:
            return str(chats[0].ask("And you?").answer)
        except cellblock.Busy as error:
            return note(error)

    # An answer for each question: the second one is asked when the run is over, and may.
    model = FakeModel(code(f"{'ask' if flavour.name == 'sync' else 'ask_async'}()"), "done", "me too")
    chats.append(agent_of(flavour, model, tools=[ask if flavour.name == "sync" else ask_async]).chat())
    assert flavour.wait(chats[0].ask("Ask.")).answer == "done"
    assert said == ["this chat waits for the answer of the tool that asks it: a question would wait for itself"]
    assert flavour.wait(chats[0].ask("And now?")).answer == "me too"
    flavour.wait(chats[0].close())


def test_what_is_asked_during_a_run_waits_for_its_end():
    look = code("print('x is', x)")
    sleeps = code("x = 2; print('half' + 'way')\nimport time; time.sleep(600)")
    model = FakeModel(code("x = 1"), "kept", sleeps, look, "2", look, "1")
    chat = Agent(**model.options()).chat()
    chat.ask("Keep 1.")
    events = chat.stream("Sleep.")
    assert next(event for event in events if "halfway" in str(event.data))
    events.close()
    # The run is cancelled and its cell interrupted. The fork has what that left; it can be taken back like any other cell.
    fork = chat.fork()
    assert chat.undo().cell == 1
    assert fork.ask("What is x?").ok and "x is 2" in last_words(model)
    assert chat.ask("And here?").ok and "x is 1" in last_words(model)
    fork.close()
    chat.close()


def test_a_first_question_that_is_refused_can_be_asked_again(flavour, tmp_path):
    model = FakeModel(code("len(open('a.txt').read())"), "2")
    chat = agent_of(flavour, model).chat(files=[tmp_path / "a.txt"])
    with pytest.raises(cellblock.CellblockError, match=r"a\.txt"):
        flavour.wait(chat.ask("How long?"))
    (tmp_path / "a.txt").write_text("ab")
    assert flavour.wait(chat.ask("How long?")).answer == "2"
    with pytest.raises(cellblock.Refused, match="empty"):
        flavour.wait(chat.ask("  "))
    flavour.wait(chat.close())


def test_chats_that_are_dropped_leave_nothing_behind():
    model = FakeModel(code("x = 1"), "kept")
    chat = Agent(**model.options()).chat()
    chat.ask("Keep 1.")
    forks = [chat.fork() for _ in range(3)]
    connection = forks[0]._conversation.core.connection
    names = [one._conversation.core.name for one in (chat, *forks)]
    assert len(set(names)) == 4
    del chat
    assert forks[1].ask("Is it there?").ok
    forks.clear()
    for name in names:
        with pytest.raises(cellblock.Refused, match="no agent"):
            for _ in range(1000):
                drive(connection, name, cancel())
                time.sleep(0.01)


def cancel():
    yield {"op": "cancel"}
