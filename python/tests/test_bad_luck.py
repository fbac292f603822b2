"""What goes wrong around a session: the program, the process, signals, the end."""

import asyncio
import os
import signal
import stat
import threading
import time

import pytest

import cellblock
from cellblock import AsyncSession, Host, Session

from .conftest import HOST, run_script


def program(tmp_path, text):
    """A program that is not `cellblock`, or not a good one."""
    path = tmp_path / "cellblock"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_missing_binary_says_what_to_do(flavour, tmp_path):
    with pytest.raises(cellblock.BinaryError, match=r"names .*nothing.*, which is no program"):
        flavour.open(host=Host(tmp_path / "nothing"))
    status, out, err = run_script(
        "import cellblock\ntry: cellblock.Session()\nexcept cellblock.BinaryError as error: print(error)",
        CELLBLOCK_BIN="",
        PATH="/nowhere",
        HOME=str(tmp_path),
    )
    if "cellblock` is not there" not in out:  # where the wheel is installed, its own program is found
        assert (status, out, err) == (0, "", "")
    else:
        assert "CELLBLOCK_BIN" in out


def test_a_binary_that_is_too_old_is_refused(flavour, tmp_path):
    with pytest.raises(cellblock.BinaryError, match=r"is version 0\.0\.1, and this package needs"):
        flavour.open(host=Host(program(tmp_path, "echo cellblock 0.0.1")))


@pytest.mark.parametrize("text", ["exit 3", "echo something else entirely", "kill -9 $$"])
def test_a_program_that_is_not_cellblock_is_refused(flavour, tmp_path, text):
    with pytest.raises(cellblock.BinaryError, match="is not the program cellblock"):
        flavour.open(host=Host(program(tmp_path, text)))


def test_a_binary_that_dies_at_its_start_tells_its_last_words(flavour, tmp_path):
    text = f'[ "$1" = --version ] && {{ echo cellblock {cellblock.__version__}; exit; }}; echo no walls here >&2; exit 3'
    with pytest.raises(cellblock.Ended, match="ended with status 3; it said: no walls here"):
        flavour.open(host=Host(program(tmp_path, text)))


@pytest.mark.parametrize("nonsense", ["nonsense", "42", '{"id":1}'])
def test_a_binary_that_talks_nonsense_does_not_hang_the_program(flavour, tmp_path, nonsense):
    text = f"""[ "$1" = --version ] && {{ echo cellblock {cellblock.__version__}; exit; }}; echo '{nonsense}'; exec sleep 20"""
    with pytest.raises(cellblock.Ended):
        flavour.open(host=Host(program(tmp_path, text)))


def test_a_host_that_is_killed_in_the_middle_is_told_and_replaced(flavour):
    host = Host(packages="none", journal=False)  # a child of its own
    session = flavour.open(host=host)
    threading.Timer(0.5, os.kill, (host.pid(), signal.SIGKILL)).start()
    with pytest.raises(cellblock.Ended, match="was killed by signal 9"):
        session.run("import time; time.sleep(30)")
    with pytest.raises(cellblock.Ended, match="was killed by signal 9"):
        session.run("1")
    assert not session.is_open
    session.close()
    assert flavour.open(host=host).run("1 + 1").value(int) == 2
    host.close()


def test_a_fork_of_the_process_gets_a_host_of_its_own_and_leaves_the_parents_alone():
    session = Session(host=HOST, tools=[answer])
    session.run("x = answer()")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            try:
                session.run("x = 2")
            except cellblock.Ended as error:
                said = str(error)
            with Session(host=HOST, tools=[answer]) as own:
                said += f" / own {own.run('answer() + 41').value(int)} / other host {HOST.pid() != parent_host_pid()}"
        except BaseException as error:
            said = f"failed: {error!r}"
        os.write(write, said.encode())
        HOST.close()
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    assert f"belongs to process {os.getpid()}" in said
    assert "own 42 / other host True" in said
    assert session.run("x").value(int) == 1
    session.close()


def answer() -> int:
    """1, by a thread of the process that asks."""
    return 1


def parent_host_pid():
    return _parent_host_pid


_parent_host_pid = 0


@pytest.fixture(autouse=True)
def remember_host():
    global _parent_host_pid
    _parent_host_pid = HOST.pid() or 0


def test_a_blocking_session_works_while_an_event_loop_runs():
    async def main() -> int:
        with Session(host=HOST, tools=[double]) as session:
            return session.run("double(21)").value(int)

    assert asyncio.run(main()) == 42


async def double(n: int) -> int:
    """Twice."""
    await asyncio.sleep(0)
    return 2 * n


def test_cancelling_a_run_interrupts_its_cell_and_the_session_goes_on():
    async def main() -> int:
        async with cellblock.AsyncSession(host=HOST) as session:
            await session.run("x = 5")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(session.run("import time\nwhile True: time.sleep(0.01)", timeout="10min"), 0.5)
            return (await asyncio.wait_for(session.run("x"), 20)).value(int)

    assert asyncio.run(main()) == 5


def test_one_async_session_serves_many_tasks():
    async def main() -> list[int]:
        async with cellblock.AsyncSession(host=HOST) as session:
            results = await asyncio.gather(*[session.run(f"{n} * 2") for n in range(20)])
            return [result.value(int) for result in results]

    assert asyncio.run(main()) == [2 * n for n in range(20)]


def test_closing_a_session_does_not_wait_for_its_cell():
    session = Session(host=HOST)
    stream = session.stream("print('go', flush=True)\nwhile True: pass", timeout="10min")
    next(stream)
    begun = time.monotonic()
    session.close()
    assert time.monotonic() - begun < 30
    assert stream.result.status == "interrupted"


def test_one_session_serves_many_threads():
    with Session(host=HOST) as session:
        session.run("total = 0")
        threads = [threading.Thread(target=session.run, args=(f"total += {n}",)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session["total"] == sum(range(20))


CTRL_C = """
import os, signal, threading, time
from cellblock import Session, Host
import cellblock
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for what they start with `&`
def press(): os.kill(os.getpid(), signal.SIGINT)
def wait(prompt=""): time.sleep(30); return ""
s = Session(host=Host(packages="none"), tools=[wait], input=wait, seed={"x": 7})
threading.Timer(1.0, press).start()
begun = time.monotonic()
try:
    s.run(CODE)
    print("no interrupt")
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begun < 15)
print(s.run("x").value(int))
"""


CTRL_C_WITH_A_LOOP = """
import asyncio, os, signal, threading, time
from cellblock import AsyncSession, Host
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for what they start with `&`
def press(): os.kill(os.getpid(), signal.SIGINT)
async def wait(prompt=""): await asyncio.sleep(30); return ""
s = AsyncSession(host=Host(packages="none"), tools=[wait], input=wait, seed={"x": 7})
async def interrupted():
    await s.open()
    threading.Timer(1.0, press).start()
    await s.run(CODE)
begun = time.monotonic()
try:
    asyncio.run(interrupted())
    print("no interrupt")
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begun < 15)
async def after(): return (await s.run("x")).value(int)
print(asyncio.run(after()))
"""


SLOW_WRITER = """
import queue, time
import cellblock._connection
class SlowQueue(queue.SimpleQueue):
    def get(self):
        line = super().get()
        time.sleep(0.5)
        return line
cellblock._connection.SimpleQueue = SlowQueue
"""


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_interrupt_never_reaches_the_cell_after_its_own(kind):
    script = CTRL_C if kind == "sync" else CTRL_C_WITH_A_LOOP
    script = script.replace("CODE", repr("input('?')")).replace('s.run("x")', 's.run("import time; time.sleep(1)\\nx")')
    status, out, err = run_script(SLOW_WRITER + script)
    assert (status, out, err) == (0, "interrupted True\n7\n", "")


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(20)", "wait()", "input('?')", "tools.wait()"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_ctrl_c_ends_the_cell_and_the_session_goes_on(kind, code):
    script = CTRL_C if kind == "sync" else CTRL_C_WITH_A_LOOP
    status, out, err = run_script(script.replace("CODE", repr(code)))
    assert (status, out, err) == (0, "interrupted True\n7\n", "")


def test_ctrl_c_at_a_terminal_does_not_reach_the_host():
    with Session(host=HOST) as session:
        session.run("x = 1")
        assert os.getpgid(HOST.pid()) != os.getpgid(0)


def test_a_program_that_ends_with_live_sessions_leaves_nothing_behind():
    code = """
import threading, time, cellblock
sessions = [cellblock.Session(host=cellblock.Host(packages="none")) for _ in range(3)]
threading.Thread(target=sessions[0].run, args=("import time; time.sleep(25)",), daemon=True).start()
stream = sessions[1].stream("while True: pass")
time.sleep(0.3)
print(cellblock.Host(packages="none").pid())
"""
    begun = time.monotonic()
    status, out, err = run_script(code)
    assert (status, err) == (0, "")
    assert time.monotonic() - begun < 20
    assert not os.path.exists(f"/proc/{int(out)}")


def test_a_program_that_is_killed_takes_its_host_along():
    code = """
import os, signal, cellblock
s = cellblock.Session(host=cellblock.Host(packages="none"))
print(cellblock.Host(packages="none").pid(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    status, out, _ = run_script(code)
    assert status == -signal.SIGKILL
    for _ in range(100):
        if not os.path.exists(f"/proc/{int(out)}"):
            return
        time.sleep(0.1)
    pytest.fail("the host is still there")


def test_no_session_is_opened_while_the_program_ends():
    code = """
import atexit
import cellblock
def late():
    try: cellblock.Session(host=cellblock.Host(packages="none"))
    except cellblock.Ended as error: print(error)
import cellblock.host
atexit.unregister(late)
cellblock.host.atexit.register(late)
cellblock.host._close_all()
"""
    status, out, err = run_script(code)
    assert (status, err) == (0, "")
    assert "this process is ending" in out


# The long run opens as many as a server does in a day.
DROPPED = 10_000 if os.environ.get("CELLBLOCK_LONG") else 300
# A session takes some milliseconds. A busy machine may take longer, but sessions that pile up take ever longer.
MAX_SECONDS_EACH = 1.0


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_sessions_that_are_opened_and_dropped_do_not_pile_up(kind):
    host = Host(packages="none", journal=False)

    async def open_and_drop():
        for _ in range(DROPPED):
            await AsyncSession(host=host).open()

    start = time.monotonic()
    if kind == "sync":
        for _ in range(DROPPED):
            Session(host=host)
    else:
        asyncio.run(open_and_drop())
    took = time.monotonic() - start
    with Session(host=host) as session:
        children = _descendants(host.pid())
        assert session.run("1").ok
    host.close()
    # Each session has several processes: those of all would be many hundreds.
    assert len(children) < 60
    assert took < DROPPED * MAX_SECONDS_EACH


def _descendants(pid: int) -> list[int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, rest = [], [pid]
    while rest:
        parent = rest.pop()
        children = [child for child, its in parents.items() if its == parent]
        found += children
        rest += children
    return found


def test_a_signal_in_the_middle_of_a_long_request_leaves_the_pipe_whole(tmp_path):
    # The other end reads nothing at first, so that a long line is stuck half-way when the signal comes.
    reader = program(tmp_path, f"sleep 1; exec cat > {tmp_path}/read")
    code = f"""
import signal, time
from pathlib import Path
from cellblock._connection import Connection
read = Path({str(tmp_path / "read")!r})
connection = Connection([{str(reader)!r}])
def press(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, press)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    connection.send({{"long": "x" * 1_000_000}})
    time.sleep(0.6)
except KeyboardInterrupt:
    pass
connection.send({{"short": 1}})
end = time.monotonic() + 40
while time.monotonic() < end and not (read.exists() and read.read_bytes().endswith(b'{{"short":1}}\\n')):
    time.sleep(0.05)
connection.close()
"""
    assert run_script(code) == (0, "", "")
    lines = (tmp_path / "read").read_text().splitlines()
    assert [len(line) for line in lines] == [len('{"long":""}') + 1_000_000, len('{"short":1}')]
