"""The laws of a session, R1 to R12 of its contract, through the Python package."""

import threading

import pytest

import cellblock
from cellblock import Session


def test_r1_seeds_are_visible_in_the_first_cell(flavour):
    seed = {"n": 3, "name": "Ada", "raw": b"\x00\xff", "pair": (1, 2), "kinds": {1, 2}, "by_number": {1: "a"}, "big": 2**80}
    session = flavour.open(seed=seed, setup="m = n * 2", imports=["math"])
    result = session.run("(n, name, raw, pair, kinds, by_number, big, m, math.floor(2.5))")
    assert result.value() == (3, "Ada", b"\x00\xff", (1, 2), {1, 2}, {1: "a"}, 2**80, 6, 2)


def test_r2_bindings_persist_with_imports_functions_classes_generators_files_and_aliases(session):
    session.run(
        "import math\n"
        "def double(n): return 2 * n\n"
        "class Box:\n    def __init__(self): self.items = []\n"
        "box = Box(); count = (n for n in range(5)); next(count)\n"
        "file = open('f.txt', 'w+'); file.write('abc'); file.seek(1)\n"
        "x = [1]; y = x"
    ).check()
    result = session.run("box.items.append(1); (math.pi > 3, double(4), len(box.items), next(count), file.read(), y is x)")
    assert result.value() == (True, 8, 1, 1, "bc", True)


def test_r3_rebinding_a_seeded_name_persists(flavour):
    session = flavour.open(seed={"n": 1})
    session.run("n = n + 41")
    assert session.run("n").value(int) == 42


def test_r4_many_statements_run_in_one_cell(session):
    assert session.run("a = 1\nb = 2\nfor i in range(3):\n    b += i\na + b").value(int) == 6


def test_r5_output_belongs_to_its_cell_and_streams_are_apart(session):
    first = session.run("import sys\nprint('one')\nprint('oops', file=sys.stderr)")
    second = session.run("print('two')")
    assert (first.stdout, first.stderr, second.stdout, second.stderr) == ("one\n", "oops\n", "two\n", "")


def test_r6_a_syntax_error_is_a_failure_and_changes_nothing(session):
    session.run("x = 1")
    result = session.run("x = 2\nx = = 3")
    assert (result.status, result.error.type) == ("failure", "SyntaxError")
    assert session.run("x").value(int) == 1


def test_r7_an_exception_is_isolated(session):
    failed = session.run("a = 123\nb = 0\nc = a / b")
    assert (failed.ok, failed.status, failed.error.repr) == (False, "failure", "ZeroDivisionError('division by zero')")
    assert session.run("(a, b, 'c' in globals())").value() == (123, 0, False)


def test_r8_an_interrupt_is_interrupted_and_a_raised_one_is_a_failure(flavour):
    session = flavour.open()
    assert session.run("raise KeyboardInterrupt").status == "failure"
    # From another thread, with the request that both flavours send.
    core = session._core if flavour.name == "sync" else session._inner._core
    timer = threading.Timer(0.5, lambda: core.connection.send({"op": "interrupt", "session": core.name}))
    timer.start()
    result = session.run("import time\nx = 5\nwhile True: time.sleep(0.01)")
    assert result.status == "interrupted"
    assert session.run("1 + 1").value(int) == 2


def test_r9_tracebacks_show_only_the_users_frames_and_the_last_line(session):
    result = session.run("import json\njson.loads('{')")
    lines = result.error.traceback.splitlines()
    assert lines[1] == '  File "<cell 1>", line 2, in <module>'
    assert lines[-1].startswith("json.decoder.JSONDecodeError: ")
    assert "cellblock" not in result.error.traceback


def test_r10_a_traceback_across_cells_shows_each_source_line(session):
    session.run("def half(n):\n    return n / zero")
    result = session.run("zero = 0\nhalf(1)")
    assert [(frame.file, frame.source) for frame in result.error.frames] == [
        ("<cell 2>", "half(1)"),
        ("<cell 1>", "return n / zero"),
    ]


def test_r11_while_a_tool_waits_others_run_and_the_same_session_is_busy(flavour):
    other = Session(host=cellblock.Host(packages="none"))
    seen = {}

    def look() -> str:
        seen["other"] = other.run("6 * 7").value(int)
        try:
            own = session._core if flavour.name == "sync" else session._inner._core
            cellblock._plans.drive(own.connection, own.name, cellblock._operations.seed(own, {"z": 1}))
        except cellblock.Busy as error:
            seen["same"] = error.code
        return "done"

    session = flavour.open(tools=[look])
    assert session.run("look()").value(str) == "done"
    assert seen == {"other": 42, "same": "busy"}
    other.close()


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("1 + 1", 2),
        ("'é\\n'", "é\n"),
        ("[1, (2, 3), {4}, None, True, 1.5, -2, 3j]", [1, (2, 3), {4}, None, True, 1.5, -2, 3j]),
        ("x = 1", None),
        ("None", None),
        ("float('inf'), frozenset(), set()", (float("inf"), frozenset(), set())),
    ],
)
def test_r12_the_value_of_the_last_expression_is_returned(session, code, value):
    assert session.run(code).value() == value


def test_a_crash_and_a_timeout_never_happened(session):
    session.run("x = 1")
    crash = session.run("x = 2\nimport os; os.kill(os.getpid(), 11)")
    late = session.run("x = 3\nwhile True: pass", timeout=0.5)
    assert (crash.status, crash.signal, crash.outcome) == ("crashed", 11, "restored")
    assert (late.status, late.outcome) == ("timeout", "restored")
    assert session.run("x").value(int) == 1


def test_an_atomic_cell_that_fails_leaves_nothing_behind(session):
    session.run("x = 1")
    assert session.run("x = 2; 1/0", atomic=True).outcome == "restored"
    assert session.run("x").value(int) == 1


def test_a_wrong_timeout_is_refused_before_anything_runs(session):
    with pytest.raises(cellblock.Refused, match="timeout"):
        session.run("x = 1", timeout=0)
    assert session.vars() == []
