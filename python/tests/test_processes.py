"""Processes beside the interpreter."""

import glob
import signal
import time

import pytest

import cellblock
from cellblock import Output


def test_a_process_runs_in_the_workspace_beside_the_interpreter(session):
    session.run("open('a.txt', 'w').write('from a cell')")
    process = session.spawn(["cat", "a.txt"])
    assert list(process) == [Output("stdout", b"from a cell", 0)]
    assert (process.wait().status, process.returncode, process.dropped) == ("exited", 0, 0)
    assert session.spawn("echo out; echo err >&2; exit 3").communicate() == (b"out\n", b"err\n")


def test_input_is_written_and_closed(session):
    process = session.spawn(["sort", "-n"], stdin=True)
    assert process.communicate(b"10\n9\n") == (b"9\n10\n", b"")
    with pytest.raises(cellblock.Refused, match="closed input"):
        process.write(b"more")
    with pytest.raises(cellblock.Refused, match="without an input"):
        session.spawn(["sleep", "100"]).write(b"x")


def test_long_input_is_written_whole(session):
    data = bytes(range(256)) * 40_000
    assert session.spawn("wc -c", stdin=True).communicate(data) == (b"10240000\n", b"")


def test_directory_variables_and_tag(session):
    process = session.spawn("echo $ANSWER; pwd", cwd="/tmp", env={"ANSWER": "42"}, tag="mine")
    assert process.communicate() == (b"42\n/tmp\n", b"")
    sleeping = session.spawn(["sleep", "100"], tag="sleeper")
    [listed] = session.processes()
    assert (listed.proc, listed.pid, listed.tag, listed.argv) == (sleeping.proc, sleeping.pid, "sleeper", ["sleep", "100"])


def test_what_cannot_be_started_is_refused(session):
    with pytest.raises(cellblock.Refused, match="no program `no-such-program`"):
        session.spawn(["no-such-program"])
    with pytest.raises(cellblock.Refused, match="cannot be entered"):
        session.spawn(["true"], cwd="/nowhere")
    with pytest.raises(cellblock.Refused, match="argv"):
        session.spawn([])


def test_signals_and_times_end_a_process(session):
    process = session.spawn(["sleep", "100"])
    process.send_signal(signal.SIGTERM)
    assert (process.wait().signal, process.returncode) == (15, -15)
    stubborn = session.spawn("trap '' TERM; touch up; while :; do sleep 1; done")
    assert session.attach(stubborn.proc).proc == stubborn.proc
    session.run("import os, time\nwhile not os.path.exists('up'): time.sleep(0.01)")
    stubborn.terminate()
    with pytest.raises(TimeoutError):
        stubborn.wait(0.2)
    stubborn.kill()
    assert stubborn.wait().status == "killed"
    assert session.spawn(["sleep", "100"], timeout=0.2).wait().status == "timeout"


def test_a_terminal_has_a_size(session):
    process = session.spawn("stty size; read line; stty size", pty=(80, 24))
    process.resize(100, 30)
    process.write(b"\n")
    text = process.communicate()[0].decode()
    assert text.endswith("30 100\r\n")


def test_output_is_read_again_from_an_offset(session):
    process = session.spawn("echo 0123456789")
    process.wait()
    assert session.attach(process.proc, after=7).communicate() == (b"789\n", b"")
    with pytest.raises(cellblock.Refused, match="p99"):
        session.attach("p99")


def test_a_crash_leaves_older_processes_and_undo_ends_younger_ones(session):
    session.run("x = 1")
    older = session.spawn(["cat"], stdin=True)
    crashed = session.run("import os; os.abort()")
    assert crashed.status == "crashed"
    assert older.communicate(b"still there\n") == (b"still there\n", b"")
    session.run("x = 2")
    younger = session.spawn(["sleep", "100"])
    session.run("x = 3")
    session.undo(2)
    assert younger.wait().status == "taken_back"


def test_a_process_ends_with_its_session(flavour):
    session = flavour.open()
    process = session.spawn(["sleep", "100"])
    session.close()
    assert process.wait().status == "session_ended"


def test_a_process_that_floods_holds_nothing_up(session):
    flood = session.spawn("yes")
    assert session.run("6 * 7").value(int) == 42
    assert session.spawn(["echo", "beside"]).communicate() == (b"beside\n", b"")
    flood.kill()
    assert flood.wait(30).status == "killed"


def test_a_process_that_forks_away_ends_with_its_session(flavour):
    session = flavour.open()
    # A time that no other process has.
    seconds = f"1000.{time.monotonic_ns()}"
    away = session.spawn(f"setsid sleep {seconds} > /dev/null 2>&1 &")
    assert away.wait(30).status == "exited"
    wait_until(lambda: is_running(seconds))
    session.close()
    wait_until(lambda: not is_running(seconds))


def is_running(argument):
    """Whether a process of this machine has this argument."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if argument.encode() in file.read().split(b"\0"):
                    return True
        except OSError:
            continue  # it has ended meanwhile
    return False


def wait_until(holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_file_that_a_process_holds_open_is_named_by_undo_and_the_rest_goes_back(session):
    session.run("open('held', 'w').write('one')")
    holder = session.spawn("exec 3>>held; touch /tmp/ready; sleep 1000")
    session.run("import os, time\nwhile not os.path.exists('/tmp/ready'): time.sleep(0.01)")
    session.run("open('held', 'a').write('two'); x = 1; open('free', 'w').close()")
    undone = session.undo()
    assert any("held" in one for one in undone.not_restored)
    assert session.run("(os.path.exists('free'), 'x' in globals(), open('held').read())").value() == (False, False, "onetwo")
    holder.kill()
    assert holder.wait(30).status == "killed"


def test_a_terminal_without_a_reader_holds_nothing_up(session):
    terminal = session.spawn("while :; do echo 0123456789012345678901234567890123456789; done", pty=(80, 24))
    assert session.run("6 * 7").value(int) == 42
    terminal.kill()
    assert terminal.wait(30).status == "killed"
