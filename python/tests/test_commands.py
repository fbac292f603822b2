"""Commands and files for the adapters, which need no framework for this."""

import sys
import time

import pytest

from cellblock import Session, _commands_guest
from cellblock import _commands as commands
from cellblock._adapters import session_from

from .conftest import HOST, run_script


@pytest.fixture
def do():
    with Session(host=HOST) as session:
        yield lambda steps: commands.carry_out(session, steps)


def test_a_command_ends_with_its_code_its_signal_or_127(do):
    assert do(commands.run_command("echo out; echo err >&2; exit 3"))[:3] == (3, b"out\n", b"err\n")
    assert do(commands.run_command("kill -TERM $$")).exit_code == 143
    assert do(commands.run_command(["no-such-program"])).exit_code == 127
    assert do(commands.run_command(["/etc/passwd"])).exit_code == 126
    assert do(commands.run_command(["cat"], input=b"\xff\x00")).stdout == b"\xff\x00"
    assert do(commands.run_command('echo "$A"; pwd', env={"A": "b  c"}, cwd="/tmp")).stdout == b"b  c\n/tmp\n"
    assert do(commands.run_command("python -c 'print(6 * 7)'")).stdout == b"42\n"
    with pytest.raises(FileNotFoundError, match="/nowhere"):
        do(commands.run_command("pwd", cwd="/nowhere"))


def test_the_end_is_that_of_the_direct_process_and_one_in_the_background_goes_on(do):
    begun = time.monotonic()
    done = do(commands.run_command("(sleep 1; echo late; echo late > /tmp/late; sleep 600) & echo done"))
    assert (done.stdout, time.monotonic() - begun < 300) == (b"done\n", True)
    assert (
        do(commands.run_command("while [ ! -s /tmp/late ]; do sleep 0.05; done; cat /tmp/late", timeout=30)).stdout == b"late\n"
    )


def test_a_time_limit_ends_the_whole_group(do):
    done = do(commands.run_command("sleep 1234 & sleep 1234", timeout=1))
    assert (done.is_late, done.exit_code) == (True, 137)
    assert b"1234" not in do(commands.run_command("ps ax -o args | grep '[s]leep'")).stdout


def test_output_is_bounded_and_what_is_kept_crosses_whole(do):
    done = do(commands.run_command("yes", timeout=1, max_output=10))
    assert (done.stdout, done.is_cut, done.is_late) == (b"y\ny\ny\ny\ny\n", True, True)
    done = do(commands.run_command("head -c 9000000 /dev/zero; head -c 5000000 /dev/zero >&2"))
    assert (len(done.stdout), len(done.stderr), done.is_cut) == (9_000_000, 5_000_000, False)


def test_output_is_read_although_the_time_for_it_is_over(monkeypatch):
    monkeypatch.setattr(_commands_guest, "_GRACE_SECONDS", -1.0)
    monkeypatch.setattr(_commands_guest._Watch, "wait", lambda self, deadline: bool(self._process.wait()))
    done = _commands_guest.run([sys.executable, "-c", "print('x' * 9)"], None, None, None, {}, None, 100, "key")
    assert _commands_guest._unpacked(done["stdout"]) == b"x" * 9 + b"\n"


def test_files_of_any_directory_and_size(do):
    contents = bytes(range(256)) * 20_000
    do(commands.write_bytes("/tmp/a/b", contents, parents=True))
    assert do(commands.read_bytes("/tmp/a/b")) == contents
    assert do(commands.look("/tmp/a/b"))[:3] == ("b", "file", len(contents))
    assert [entry.name for entry in do(commands.list_directory("/tmp/a"))] == ["b"]
    with pytest.raises(commands.TooLong):
        do(commands.read_bytes("/tmp/a/b", max_bytes=10))
    with pytest.raises(IsADirectoryError):
        do(commands.read_bytes("/tmp/a"))
    with pytest.raises(NotADirectoryError):
        do(commands.write_bytes("/tmp/a/b/c", b"", parents=True))
    do(commands.run_command("mkfifo /tmp/fifo"))
    with pytest.raises(OSError, match="Invalid argument"):
        do(commands.read_bytes("/tmp/fifo"))
    do(commands.remove("/tmp/a", recursive=True))
    with pytest.raises(FileNotFoundError):
        do(commands.look("/tmp/a"))


def test_no_variable_is_bound_and_none_of_the_session_is_used():
    with Session(host=HOST) as session:
        session.run("open = exec = display = print = None")
        before = session.vars()
        assert commands.carry_out(session, commands.run_command("echo hi")).stdout == b"hi\n"
        assert session.vars() == before


def test_answers_that_make_no_sense_are_refused():
    forged = (
        "class A:\n def _repr_mimebundle_(self, **_): return {%r: %r}\n"
        "import builtins\nbuiltins.display = lambda _, d=display: d(A())"
    )
    bomb = "__import__('base64').b64encode(__import__('zlib').compress(bytes(1 << 26))).decode()"
    for answer in ("[]", "not json", '{"exit_code": "1"}', '{"exit_code": 1, "stdout": "%%", "stderr": ""}'):
        with Session(host=HOST) as session:
            session.run(forged % (_commands_guest.ANSWER, answer)).check()
            with pytest.raises(commands.CellblockError, match="makes no sense"):
                commands.carry_out(session, commands.run_command("true"))
    with Session(host=HOST) as session:
        session.run(forged % (_commands_guest.ANSWER, "BOMB")).check()
        session.run(f"import json\nBOMB = json.dumps(dict(data={bomb}, bytes=1))")
        session.run(f"A._repr_mimebundle_ = lambda self, **_: {{{_commands_guest.ANSWER!r}: BOMB}}").check()
        with pytest.raises(commands.CellblockError, match="makes no sense"):
            commands.carry_out(session, commands.read_bytes("/etc/passwd"))


def test_a_session_or_options_are_given():
    with Session(host=HOST) as session:
        assert session_from(session, {}) is session
        with pytest.raises(TypeError, match="not both"):
            session_from(session, {"host": HOST})


def test_importing_the_package_loads_no_adapter():
    code = "import sys, cellblock; print([m for m in sys.modules if 'command' in m or 'adapter' in m or 'pydantic' in m])"
    assert run_script(code)[1] == "[]\n"
