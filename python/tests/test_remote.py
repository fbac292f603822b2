"""Sessions of a real server, `cellblock serve`, with the names of `Session`."""

import os
import re
import subprocess

import pytest

import cellblock
from cellblock import Host, Remote


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a server of the tests' own."""
    home = tmp_path_factory.mktemp("server")
    command = [Host().binary(), "serve", "--no-auth", "--listen", "127.0.0.1:0", "--stdlib", "--data", str(home / "data")]
    child = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "XDG_STATE_HOME": str(home)}
    )
    said = ""
    while "serving at" not in said:
        line = child.stderr.readline()
        assert line, said
        said += line
    yield re.search(r"http://[0-9.:]+", said).group()
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


def test_what_a_server_does_not_offer_is_said_in_words(session):
    with pytest.raises(cellblock.Unsupported, match="on a server"):
        session.spawn(["true"])


def test_a_closed_session_of_a_server_is_over(session):
    session.close()
    with pytest.raises(cellblock.Ended):
        session.run("1")


def test_a_server_that_is_not_there_is_an_error_in_words(flavour):
    with pytest.raises(cellblock.Ended, match=r"http://127\.0\.0\.1:1"):
        flavour.open(host=Remote("http://127.0.0.1:1"))
