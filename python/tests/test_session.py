"""What one does with a session: variables, files, undo, forks, streams, options."""

import gc
import json
import sys
import threading
import time
from pathlib import Path

import pytest

import cellblock
from cellblock import Env, Finished, Host, Limits, Network, Remote, Stdout
from cellblock.records import Variable


def test_variables_are_read_and_bound(session):
    session["n"] = 3
    session.seed(pair=(1, 2), nothing=None)
    assert (session["n"], session["pair"], session["nothing"]) == (3, (1, 2), None)
    assert session.get("pair", tuple[int, int]) == (1, 2)
    assert sorted(variable.name for variable in session.vars()) == ["n", "nothing", "pair"]
    assert session.inspect("n").repr == "3"
    with pytest.raises(KeyError):
        session["missing"]
    with pytest.raises(cellblock.WrongValue, match="expected str, got 3"):
        session.get("n", str)
    with pytest.raises(cellblock.WrongValue, match="cannot be the name"):
        session["not a name"] = 1
    with pytest.raises(cellblock.WrongValue, match="cannot cross into a session"):
        session["f"] = sys.stdout


def test_a_failure_names_the_option_that_helps():
    code = "import mmap\nheld = mmap.mmap(-1, 2 << 30, flags=0x4022)\nfor n in range(0, 2 << 30, 4096): held[n] = 1"
    more = 'hint: open the session with limits=Limits(memory="8GB") to allow more'
    with cellblock.Session(limits=Limits(memory="200MB")) as session:
        for cell in (code, "b'x' * (400 << 20)"):
            assert session.run(cell).failure_text().endswith(more)
        assert 'open it with env=Env("nowhere")' in session.run("import nowhere.at_all").failure_text()
        asked = "import socket; socket.create_connection(('example.com', 80), 5)"
        assert 'open the session with network=Network("HOST")' in session.run(asked).failure_text()
    with pytest.raises(cellblock.BinaryError, match="there is no environment `nowhere`; `cellblock env list` shows them"):
        cellblock.Session(env="nowhere")


def test_a_variable_that_is_too_large_for_its_repr_crosses_whole_and_leaves_no_trace(session):
    session.run("big = list(range(100_000))")
    assert session.get("big", list[int]) == list(range(100_000))
    assert session.files.list() == []
    assert session.run("1").cell == 2


def test_compute_changes_nothing(session):
    session["word"] = "NcS9euQa"
    assert session.compute("word[::-1]") == "aQue9ScN"
    with pytest.raises(cellblock.Refused, match="NameError"):
        session.compute("nothing_of_that_name")


def test_undo_takes_variables_and_files_back(session):
    session.run("x = 1; open('a.txt', 'w').write('one')")
    session.run("x = 2; open('a.txt', 'w').write('two')")
    undone = session.undo()
    assert (undone.cell, [change.name for change in undone.variables.changed]) == (1, ["x"])
    assert [change.path for change in undone.files.changed] == ["a.txt"]
    assert (session["x"], session.files["a.txt"]) == (1, b"one")
    with pytest.raises(cellblock.Refused, match="to take back"):
        session.undo(9)


def test_a_named_checkpoint_is_gone_back_to(session):
    start = session.checkpoint("start")
    session.run("x = 1")
    session.checkpoint("one")
    session.run("x = 2")
    session.run("1/0")
    session.run("import os; os._exit(3)")
    assert session.undo(to="one").cell == 1
    assert session["x"] == 1
    assert session.undo(to="one").variables == ([], [], [])
    assert "one" in [checkpoint.name for checkpoint in session.checkpoints()]
    session.undo(to=start)
    assert session.vars() == []
    with pytest.raises(cellblock.Refused, match="no checkpoint 'one'"):
        session.undo(to="one")


def test_cells_that_went_with_an_older_checkpoint_are_not_taken_back_once_more(session):
    session.run("x = 1")
    session.checkpoint("one")
    # A setting that cannot be set again (SO_TIMESTAMP): no checkpoint can have this server.
    session.run("import socket; k = socket.create_server(('127.0.0.1', 8140)); k.setsockopt(socket.SOL_SOCKET, 29, 1)")
    crash = session.run("import os; os._exit(1)")
    assert (crash.outcome, crash.checkpoint.status, crash.checkpoint.behind) == ("restored", "behind", 1)
    session.undo(to="one")
    assert session["x"] == 1


# A thread that no checkpoint can carry: it blocks every signal.
UNCARRIED = """
import ctypes, threading, time
ready = threading.Event()
def work():
    ctypes.CDLL(None).syscall(14, 0, ctypes.byref(ctypes.c_uint64(-1)), None, 8)  # rt_sigprocmask
    ready.set()
    time.sleep(600)
threading.Thread(target=work, daemon=True).start()
ready.wait()
"""


def test_cells_since_an_older_checkpoint_are_run_again_and_named(flavour):
    session = flavour.open()
    session.run(f"x = 1\n{UNCARRIED}").check()
    session.run("import time; began = time.perf_counter_ns(); began").check()
    crash = session.run("import os; os._exit(1)")
    assert (crash.outcome, crash.replayed, crash.lost) == ("restored", [1, 2], [])
    assert crash.differed[0].startswith("cell 2: value was"), crash.differed
    assert crash.replay_ms is not None and session["x"] == 1


def test_without_replay_the_cells_since_an_older_checkpoint_are_lost(flavour):
    session = flavour.open(replay=False)
    session.run(f"x = 1\n{UNCARRIED}").check()
    crash = session.run("import os; os._exit(1)")
    assert (crash.outcome, crash.replayed, crash.lost, crash.replay_ms) == ("restored", [], [1], None)
    assert session.vars() == []


def test_a_fork_has_variables_and_files_of_its_own(session):
    session.run("plan = ['measure']; open('plan.txt', 'w').write('measure')")
    fork = session.fork()
    fork.run("plan.append('cut'); open('plan.txt', 'a').write(', cut')")
    assert (session["plan"], fork["plan"]) == (["measure"], ["measure", "cut"])
    assert (session.files["plan.txt"], fork.files["plan.txt"]) == (b"measure", b"measure, cut")
    fork.close()
    assert session.run("len(plan)").value(int) == 1


def test_files_go_in_and_out(session, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("a")
    session.files.upload(tmp_path / "in")
    session.files.write("deep/er/b.bin", bytes(range(256)))
    session.run("import os; os.makedirs('out/x'); open('out/x/c.txt', 'w').write('c'); open('out/d.txt', 'w').write('d')")
    assert session.files.read("in/a.txt") == b"a"
    assert session.files.read("deep/er/b.bin") == bytes(range(256))
    session.files.download("out/", tmp_path / "got")
    assert (tmp_path / "got" / "x" / "c.txt").read_text() == "c"
    session.files.download("in/a.txt", tmp_path / "single.txt")
    assert (tmp_path / "single.txt").read_text() == "a"
    assert sorted(file.path for file in session.files.list()) == ["deep/er/b.bin", "in/a.txt", "out/d.txt", "out/x/c.txt"]
    with pytest.raises(cellblock.Refused, match="No such file"):
        session.files.read("nothing")
    with pytest.raises(cellblock.Refused):
        session.files.read("../../etc/passwd")


def test_a_file_larger_than_a_line_goes_in_and_out(session):
    contents = bytes(range(256)) * (25_000_000 // 256)
    session.files.write("big/file.bin", contents)
    assert [(file.path, file.bytes) for file in session.files.list()] == [("big/file.bin", len(contents))]
    assert session.files.read("big/file.bin") == contents


def test_a_download_never_leaves_its_target(session, tmp_path):
    session.run("open('a\\\\..\\\\b', 'w').write('x')")
    with pytest.raises(cellblock.Refused, match="cannot be used here"):
        session.files.download("", tmp_path)


def test_a_stream_gives_events_as_types(flavour):
    session = flavour.open(tools=[len_of])
    events = list(session.stream("print('a')\nlen_of(text='abc')\ndisplay(1)"))
    assert [type(event).__name__ for event in events] == ["Stdout", "ToolCall", "Display", "Finished"]
    assert events[0] == Stdout("a\n")
    events = list(session.stream("import os; os._exit(1)"))
    assert [type(event).__name__ for event in events] == ["Restored", "Finished"]
    assert isinstance(events[-1], Finished) and events[-1].result.status == "crashed"


def len_of(text: str) -> int:
    """The length."""
    return len(text)


def test_what_threads_print_between_cells_is_logged(flavour):
    import time

    logs = []
    session = flavour.open(on_log=logs.append)
    session.run("import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()")
    for _ in range(100):
        if logs:
            break
        time.sleep(0.05)
    assert logs[0].text == "late\n"


def test_output_beyond_the_result_can_be_read(flavour):
    session = flavour.open(limits=Limits(output_kept="1kB"))
    result = session.run("print('x' * 5000)")
    assert result.truncated["stdout"]["left_out"] > 0
    assert session.read_output(result.cell, "stdout", offset=4990) == "x" * 10 + "\n"


def test_reset_forgets_variables_and_keeps_files(session):
    session.run("x = 1; open('f', 'w').write('1')")
    session.reset()
    assert session.vars() == []
    assert len(session.files.list()) == 1


def test_a_session_exports_itself(session, tmp_path):
    session.run("x = 20\nprint('x is', x)").check()
    session.run("x + 1").check()
    notebook = json.loads(session.notebook(tmp_path / "run.ipynb").read_text())
    assert any("x = 20" in "".join(cell["source"]) for cell in notebook["cells"])
    assert "x = 20" in session.script(tmp_path / "run.py").read_text()
    assert len(session.transcript()) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limits": Limits(memory="1kB")}, "limits.memory"),
        ({"limits": {"memroy": 1}}, "memroy"),
        ({"name": "a b"}, "session"),
        ({"isolation": "strong"}, "isolation"),
        ({"network": Network("http://x/y")}, "network"),
        ({"setup": "1/0"}, "ZeroDivisionError"),
        ({"imports": ["no_such_module_here"]}, "no_such_module_here"),
        ({"workspace": "/no/such/directory"}, "/no/such/directory"),
    ],
)
def test_a_wrong_option_is_refused_with_its_name(flavour, options, message):
    with pytest.raises(cellblock.CellblockError, match=message):
        flavour.open(**options)


def test_a_wrong_option_leaves_its_name_free(flavour):
    for _ in range(2):
        with pytest.raises(cellblock.CellblockError):
            flavour.open("taken", setup="1/0")
    assert flavour.open("taken").run("1").ok


def test_two_sessions_of_one_name_are_refused(flavour):
    flavour.open("twin")
    with pytest.raises(cellblock.Refused, match="open already"):
        flavour.open("twin")


def test_a_workspace_of_yours_is_used(flavour, tmp_path):
    (tmp_path / "in.txt").write_text("here")
    session = flavour.open(workspace=tmp_path)
    assert session.run("open('in.txt').read()").value(str) == "here"


def test_a_closed_session_says_so(session):
    session.close()
    session.close()
    assert not session.is_open
    with pytest.raises(cellblock.Ended, match="was closed"):
        session.run("1")


def test_a_session_that_ended_by_itself_says_so(flavour):
    session = flavour.open(strategy="direct")
    session.run("x = 1")
    assert session.run("import os; os._exit(1)").outcome == "ended"
    with pytest.raises(cellblock.Ended):
        session.run("1")


def test_a_remote_never_shows_its_token():
    assert repr(Remote("https://a.example/", token="secret")) == "Remote('https://a.example')"
    with pytest.raises(ValueError, match="url"):
        Remote("sandbox.example.org")


def test_options_show_themselves():
    assert repr(Limits(memory="1GB", wall=5)) == "Limits(memory='1GB', wall=5)"
    assert repr(Env("pandas", "httpx>=1")) == "Env('pandas', 'httpx>=1')"
    assert repr(Host(packages="none")) == "Host(packages='none')"
    assert Path(Env("a", "b").word()).read_text() == "a\nb\n"
    for wrong in ((), ("--index-url=x",), ("a\nb",)):
        with pytest.raises(ValueError):
            Env(*wrong)


def opened_within(seconds: float, name: str) -> cellblock.Session:
    end = time.monotonic() + seconds
    while True:
        try:
            return cellblock.Session(name, host=Host(packages="none"))
        except cellblock.Refused:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def test_sessions_that_are_dropped_are_closed():
    session = cellblock.Session(host=Host(packages="none"))
    connection, name = session._core.connection, session.name
    session.run("x = 1")
    del session
    gc.collect()
    # The name is free again as soon as the session is gone. A thread of its own closes a dropped session.
    again = opened_within(20, name)
    assert again.vars() == []
    assert again._core.connection is connection
    again.close()


def test_a_dropped_stream_interrupts_its_cell():
    with cellblock.Session(host=Host(packages="none")) as session:
        stream = session.stream("import time\nprint('go', flush=True)\nwhile True: time.sleep(0.01)", timeout="10min")
        assert next(stream) == Stdout("go\n")
        del stream
        gc.collect()
        following = threading.Thread(target=session.run, args=("1",), daemon=True)
        following.start()
        following.join(20)
        assert not following.is_alive()


def test_a_variable_is_a_tuple_of_its_facts():
    assert Variable("x", "int", "1") == ("x", "int", "1", None)
