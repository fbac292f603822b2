"""What programs do with the official SDKs of E2B, against a server of ours."""

import asyncio
import urllib.error
import urllib.request

import pytest
from e2b import CommandExitException, NotFoundException, SandboxNotRunningException, TimeoutException
from e2b.sandbox.commands.command_handle import PtySize
from e2b_code_interpreter import AsyncSandbox, Sandbox


@pytest.fixture
def sandbox():
    with Sandbox.create(timeout=300) as made:
        yield made


def test_a_cell_gives_its_value_its_output_and_its_error(sandbox):
    run = sandbox.run_code("print('out')\nimport sys; print('err', file=sys.stderr)\n6 * 7")
    assert (run.text, run.logs.stdout, run.logs.stderr) == ("42", ["out\n"], ["err\n"])
    run = sandbox.run_code("1 / 0")
    assert (run.error.name, run.error.value) == ("ZeroDivisionError", "division by zero")
    assert sandbox.run_code("x = 1").results == []
    assert sandbox.run_code("x + 1").text == "2"


def test_output_comes_while_the_cell_runs(sandbox):
    seen = []
    sandbox.run_code("for i in range(3): print(i, flush=True)", on_stdout=lambda line: seen.append(line.line))
    assert "".join(seen) == "0\n1\n2\n"


def test_execution_counts_begin_at_one(sandbox):
    assert [sandbox.run_code("0").execution_count for _ in range(3)] == [1, 2, 3]


def test_a_timeout_of_the_client_interrupts_the_cell(sandbox):
    with pytest.raises(TimeoutException):
        sandbox.run_code("while True: pass", timeout=2)
    assert sandbox.run_code("'alive'").text == "alive"


def test_contexts_have_variables_of_their_own(sandbox):
    sandbox.run_code("x = 1")
    context = sandbox.create_code_context()
    assert sandbox.run_code("'x' in globals()", context=context).text == "False"
    assert context.id in [known.id for known in sandbox.list_code_contexts()]
    sandbox.run_code("y = 2", context=context)
    sandbox.restart_code_context(context)
    assert sandbox.run_code("'y' in globals()", context=context).text == "False"
    sandbox.remove_code_context(context)
    assert context.id not in [known.id for known in sandbox.list_code_contexts()]


def test_bash_keeps_its_variables(sandbox):
    sandbox.run_code("a=5", language="bash")
    assert sandbox.run_code("echo $a", language="bash").logs.stdout == ["5\n"]


def test_variables_of_the_environment(sandbox):
    assert sandbox.run_code("import os; os.environ['A']", envs={"A": "b"}).text == "b"
    with Sandbox.create(envs={"C": "d"}) as other:
        assert other.run_code("import os; os.environ['C']").text == "d"
        assert other.commands.run("echo $C").stdout == "d\n"


def test_commands_end_with_their_exit_code(sandbox):
    done = sandbox.commands.run("echo out; echo err >&2")
    assert (done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 0)
    with pytest.raises(CommandExitException) as failed:
        sandbox.commands.run("exit 7")
    assert failed.value.exit_code == 7


def test_commands_in_the_background_are_listed_fed_and_ended(sandbox):
    command = sandbox.commands.run("cat", background=True, stdin=True)
    assert command.pid in [process.pid for process in sandbox.commands.list()]
    sandbox.commands.send_stdin(command.pid, "hello\n")
    for stdout, _, _ in command:
        assert stdout == "hello\n"
        break
    assert sandbox.commands.kill(command.pid)
    assert not sandbox.commands.kill(99999)


def test_a_command_can_be_connected_to(sandbox):
    first = sandbox.commands.run("sleep 2; echo later", background=True)
    again = sandbox.commands.connect(first.pid)
    assert again.wait().stdout == "later\n"


def test_a_command_that_takes_too_long_ends_the_call(sandbox):
    with pytest.raises(TimeoutException):
        sandbox.commands.run("sleep 20", timeout=1)


def test_a_terminal_takes_keys_and_sizes(sandbox):
    async def talk():
        made = await AsyncSandbox.create()
        seen, done = [], asyncio.Event()

        def on_data(data):
            seen.append(data)
            if b"100" in b"".join(seen):
                done.set()

        terminal = await made.pty.create(PtySize(cols=80, rows=24), on_data=on_data)
        await made.pty.resize(terminal.pid, PtySize(cols=100, rows=24))
        await made.pty.send_stdin(terminal.pid, b"tput cols || stty size\n")
        await asyncio.wait_for(done.wait(), 30)
        await made.pty.kill(terminal.pid)
        await made.kill()

    asyncio.run(talk())


def test_files_are_written_read_listed_moved_and_removed(sandbox):
    files = sandbox.files
    info = files.write("dir/a.txt", "text")
    assert info.path.endswith("/dir/a.txt")
    assert files.read("dir/a.txt") == "text"
    assert bytes(files.read("dir/a.txt", format="bytes")) == b"text"
    assert [entry.name for entry in files.list("dir")] == ["a.txt"]
    assert files.get_info("dir/a.txt").size == 4
    assert files.make_dir("made") and not files.make_dir("made")
    files.rename("dir/a.txt", "made/b.txt")
    assert files.exists("made/b.txt") and not files.exists("dir/a.txt")
    files.remove("made")
    with pytest.raises(NotFoundException):
        files.read("made/b.txt")
    with pytest.raises(NotFoundException):
        files.list("nowhere")


def test_several_files_and_metadata(sandbox):
    written = sandbox.files.write_files([{"path": "a", "data": b"1"}, {"path": "b", "data": "2"}])
    assert [info.name for info in written] == ["a", "b"]
    sandbox.files.write("c", "3", metadata={"author": "me"})
    assert sandbox.files.get_info("c").metadata == {"author": "me"}


def test_a_large_file_arrives_whole(sandbox):
    contents = bytes(range(256)) * (20 << 12)
    sandbox.files.write("large", contents)
    assert bytes(sandbox.files.read("large", format="bytes")) == contents
    assert sandbox.commands.run("wc -c < large").stdout.strip() == str(len(contents))


def test_watchers_tell_what_happened(sandbox):
    sandbox.files.make_dir("w")
    watcher = sandbox.files.watch_dir("w")
    sandbox.files.write("w/new", "x")
    names = {event.name for event in watcher.get_new_events()}
    watcher.stop()
    assert names == {"new"}


def test_signed_urls_read_one_file(sandbox):
    sandbox.files.write("signed.txt", "text")
    url = sandbox.download_url("signed.txt", use_signature_expiration=60)
    assert urllib.request.urlopen(url).read() == b"text"
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(url.replace("signed.txt", "other.txt"))


def test_a_paused_sandbox_goes_on_where_it_was(sandbox):
    sandbox.run_code("x = 'kept'")
    sandbox.pause()
    assert not sandbox.is_running()
    sandbox.connect(timeout=60)
    assert sandbox.is_running()
    assert sandbox.run_code("x").text == "kept"


def test_forks_and_snapshots(sandbox):
    sandbox.run_code("x = 1")
    snapshot = sandbox.create_snapshot()
    sandbox.run_code("x = 2")
    with Sandbox.create(snapshot.snapshot_id) as later:
        assert later.run_code("x").text == "1"
    assert Sandbox.delete_snapshot(snapshot.snapshot_id)


def test_lists_are_filtered_by_metadata():
    with Sandbox.create(metadata={"suite": "lists"}) as made:
        from e2b import SandboxQuery

        pages = Sandbox.list(query=SandboxQuery(metadata={"suite": "lists"}))
        assert [item.sandbox_id for item in pages.next_items()] == [made.sandbox_id]
        assert made.get_info().metadata == {"suite": "lists"}


def test_a_killed_sandbox_is_gone():
    made = Sandbox.create()
    assert made.kill() and not made.kill()
    assert not made.is_running()
    with pytest.raises(SandboxNotRunningException):
        made.commands.run("true")


def test_the_end_can_be_moved(sandbox):
    before = sandbox.get_info().end_at
    sandbox.set_timeout(900)
    assert sandbox.get_info().end_at > before


def test_metrics_are_told(sandbox):
    assert sandbox.get_metrics()[0].cpu_count >= 1


def test_ten_sandboxes_at_once():
    async def one(number):
        made = await AsyncSandbox.create()
        try:
            return (await made.run_code(f"{number} * 2")).text
        finally:
            await made.kill()

    async def all_of_them():
        return await asyncio.gather(*(one(number) for number in range(10)))

    assert asyncio.run(all_of_them()) == [str(number * 2) for number in range(10)]
