"""Sessions of a real server, `cellblock serve`, with the names of `Session`."""

import json
import os
import re
import subprocess
import time
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest

import cellblock
from cellblock import Host, Remote


def started(home, *options):
    """A server of the tests' own: the process, and what it said at its start."""
    command = [Host().binary(), "serve", "--listen", "127.0.0.1:0", "--stdlib", "--data", str(home / "data"), *options]
    child = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "XDG_STATE_HOME": str(home)}
    )
    said = ""
    while "serving at" not in said or ("--no-auth" not in options and "/setup#" not in said):
        line = child.stderr.readline()
        assert line, said
        said += line
    return child, said


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a server that lets everyone in."""
    child, said = started(tmp_path_factory.mktemp("server"), "--no-auth")
    yield re.search(r"http://[0-9.:]+", said).group()
    child.terminate()
    child.wait(60)


@pytest.fixture(scope="module")
def closed_server(tmp_path_factory):
    """The address of a server with users, each of whom may have two sessions; and a token of one of them."""
    child, said = started(tmp_path_factory.mktemp("closed"), "--quota", "sessions=2")
    url = re.search(r"serving at (http://[0-9.:]+)", said).group(1)
    opener = build_opener(HTTPCookieProcessor())

    def post(path, body):
        headers = {"Content-Type": "application/json", "X-Cellblock": "1"}
        with opener.open(Request(url + path, json.dumps(body).encode(), headers)) as answer:
            return json.load(answer)

    secret = re.search(r"/setup#(\S+)", said).group(1)
    post("/v1/setup", {"secret": secret, "name": "ada", "password": "a long password"})
    yield url, post("/v1/tokens", {"name": "program"})["token"]
    child.terminate()
    child.wait(60)


@pytest.fixture
def remote(server):
    made = Remote(server)
    yield made
    made.close()


@pytest.fixture
def session(flavour, remote):
    return flavour.open(host=remote)


def test_cells_variables_and_undo_are_the_same_on_a_server(flavour, remote):
    session = flavour.open(host=remote, seed={"n": 20}, limits={"wall": 20})
    assert session.run("m = n * 2\nm + 2").value(int) == 42
    failed = session.run("print('out')\n1 / 0")
    assert (failed.status, failed.stdout, failed.error.type) == ("failure", "out\n", "ZeroDivisionError")
    session["k"] = 7
    assert session.get("m") == 40 and sorted(one.name for one in session.vars()) == ["k", "m", "n"]
    session.run("m = 0")
    session.undo()
    assert session.run("m").value(int) == 40


def test_a_crash_on_a_server_never_happened(session):
    session.run("x = 1")
    crash = session.run("x = 2\nimport os; os.kill(os.getpid(), 11)")
    assert (crash.status, crash.outcome) == ("crashed", "restored")
    assert session.run("x").value(int) == 1


def test_what_threads_of_a_server_print_between_cells_is_logged(flavour, remote):
    logs = []
    session = flavour.open(host=remote, on_log=logs.append)
    session.run(
        "import os, threading, time\ndef later(text):\n    while not os.path.exists(text): time.sleep(0.01)\n    print(text)"
    )
    for text in ("one", "two"):
        session.run(f"threading.Thread(target=later, args=[{text!r}]).start()\nprint('in the cell')")
        session.files[text] = "go on"
        deadline = time.monotonic() + 20
        while (not logs or logs[-1].text != f"{text}\n") and time.monotonic() < deadline:
            time.sleep(0.02)
    assert [log.text for log in logs] == ["one\n", "two\n"]
    session.close()


def test_code_on_a_server_calls_functions_of_this_process(flavour, remote):
    session = flavour.open(host=remote, tools=[double], input=lambda prompt: prompt.upper())
    assert session.run("double(n=21)").value(int) == 42
    assert session.run("input('a?')").value(str) == "A?"


def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


def test_files_cross_to_a_server_and_back(session):
    session.files["a b.txt"] = "one"
    assert session.run("open('a b.txt').read()").value(str) == "one"
    session.run("open('out.bin', 'wb').write(bytes(5 << 20))")
    assert session.files.read("out.bin") == bytes(5 << 20)
    assert session.files.read_text("a b.txt") == "one"
    with pytest.raises(cellblock.CellblockError):
        session.files.read("nothing")


def test_a_fork_on_a_server_goes_its_own_way(session):
    session.run("x = 1")
    fork = session.fork()
    fork.run("x = 2")
    assert (session.run("x").value(int), fork.run("x").value(int)) == (1, 2)
    fork.close()


def test_processes_of_a_server_are_written_to_and_read(session):
    assert session.spawn(["sort", "-n"], stdin=True).communicate(b"10\n9\n") == (b"9\n10\n", b"")
    sleeping = session.spawn("echo up; exec sleep 1000", tag="sleeper")
    [listed] = session.processes()
    assert (listed.proc, listed.pid, listed.tag) == (sleeping.proc, sleeping.pid, "sleeper")
    sleeping.terminate()
    assert sleeping.wait().signal == 15
    assert session.attach(sleeping.proc).communicate() == (b"up\n", b"")
    with pytest.raises(cellblock.Refused, match="no program `no-such-program`"):
        session.spawn(["no-such-program"])


def test_files_of_a_server_by_absolute_path(session):
    session.files.write("/tmp/d/a.bin", bytes(3 << 20))
    assert session.files.read("/tmp/d/a.bin") == bytes(3 << 20)
    assert session.files.stat("/tmp/d/a.bin").bytes == 3 << 20
    session.files.move("/tmp/d/a.bin", "/tmp/d/b.bin")
    assert [entry.path for entry in session.files.list_dir("/tmp", depth=2)] == ["/tmp/d", "/tmp/d/b.bin"]
    session.files.remove("/tmp/d")


def test_a_directory_of_a_server_is_watched(session):
    watch = session.watch("/tmp", recursive=True)
    session.run("open('/tmp/a', 'w').close()")
    assert watch.take(60.0) == [cellblock.FileChange("create", "/tmp/a")]
    watch.close()
    assert watch.is_over and watch.take(60.0) == []
    other = session.watch()
    session.close()
    assert list(other) == []


def test_questions_events_and_pauses_of_a_server(session):
    session.run("number = 1; print('out')")
    assert [match.text for match in session.complete("numb")] == ["number"]
    assert session.is_complete("if 1:").status == "incomplete"
    assert session.inspect_at("number") is not None
    told = [type(numbered.event).__name__ for numbered in session.events(follow=False)]
    assert told[0] == "Begun" and "Stdout" in told and "Finished" in told
    session.pause()
    with pytest.raises(cellblock.Refused, match="paused"):
        session.run("1")
    session.resume()
    assert session.run("number").value(int) == 1


def test_sessions_of_a_server_begin_with_a_snapshot(session):
    session.run("x = [1]; open('a', 'w').write('one')")
    name = session.freeze("clean")
    assert name == "clean"
    with pytest.raises(cellblock.CellblockError, match="`clean` already"):
        session.freeze("clean")
    session.run("x.append(2); open('a', 'w').write('two')")
    first, second = session.open_from(name), session.open_from(name)
    first.run("x.append(3)")
    seen = [one.run("(x, open('a').read())").value() for one in (session, first, second)]
    assert seen == [([1, 2], "two"), ([1, 3], "one"), ([1], "one")]
    session.discard(name)
    with pytest.raises(cellblock.Refused, match="snapshot"):
        session.open_from(name)
    unnamed = session.freeze()
    assert session.open_from(unnamed).run("x").value() == [1, 2]
    session.discard(unnamed)


def test_what_a_server_does_not_offer_is_said_in_words(session):
    with pytest.raises(cellblock.Unsupported, match="on a server"):
        session._core.host._connect()._do(session._core.name, {"op": "comm"}, print)


def test_a_token_lets_in_and_limits_are_told(flavour, closed_server):
    url, token = closed_server
    for wrong in (None, "cb_x_y"):
        with pytest.raises(cellblock.Refused, match=r"Remote\(url, token\)"):
            flavour.open(host=Remote(url, wrong))
    remote = Remote(url, token)
    sessions = [flavour.open(host=remote) for _ in range(2)]
    assert sessions[0].run("6 * 7").value(int) == 42
    assert sessions[1].spawn(["echo", "hello"]).communicate() == (b"hello\n", b"")
    with pytest.raises(cellblock.CellblockError, match="sessions") as refused:
        flavour.open(host=remote)
    assert not isinstance(refused.value, cellblock.Ended)
    sessions[0].close()
    assert flavour.open(host=remote).run("1 + 1").value(int) == 2
    remote.close()


def test_a_closed_session_of_a_server_is_over(session):
    session.close()
    with pytest.raises(cellblock.Ended):
        session.run("1")


def test_a_server_that_is_not_there_is_an_error_in_words(flavour):
    with pytest.raises(cellblock.Ended, match=r"http://127\.0\.0\.1:1"):
        flavour.open(host=Remote("http://127.0.0.1:1"))
