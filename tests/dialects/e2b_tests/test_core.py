"""The core SDK: sandboxes, commands, files, watchers, terminals, forks and snapshots."""

import json
import time
import urllib.error
import urllib.request

import pytest
from e2b import (
    CommandExitException,
    FilesystemEventType,
    FileType,
    InvalidArgumentException,
    NotFoundException,
    Sandbox,
    SandboxException,
    SandboxQuery,
    SandboxState,
    TimeoutException,
)


@pytest.fixture(scope="module")
def shared():
    with Sandbox.create(timeout=900) as made:
        yield made


@pytest.fixture
def fresh():
    with Sandbox.create(timeout=300) as made:
        yield made


@pytest.mark.parametrize("text", ["Hello, World!", "!@#$%^&*()_+", "two\nlines", "ünïcode"])
def test_a_command_gives_its_output(shared, text):
    done = shared.commands.run(f"echo '{text}'")
    assert (done.stdout, done.exit_code) == (f"{text}\n", 0)


def test_broken_utf8_is_replaced(shared):
    assert shared.commands.run("printf '" + "a" * 8191 + "\\xe2'").stdout == "a" * 8191 + "\ufffd"


def test_a_command_has_its_variables_and_directory(fresh):
    assert fresh.commands.run("echo $A; pwd", envs={"A": "b"}, cwd="/tmp").stdout == "b\n/tmp\n"
    assert fresh.commands.run("echo ${A:-none}").stdout == "none\n"
    assert fresh.commands.run("whoami").stdout == "user\n"


def test_a_timeout_ends_the_iteration_too(shared):
    command = shared.commands.run("sleep 30", timeout=2, background=True)
    with pytest.raises(TimeoutException):
        for _ in command:
            pass


def test_a_killed_command_says_so(shared):
    command = shared.commands.run("sleep 60", background=True)
    assert command.kill()
    with pytest.raises(CommandExitException):
        command.wait()


@pytest.mark.parametrize("text", ["Hello", "!@#$%^&*()_+", "two\nlines"])
def test_a_command_reads_its_input(shared, text):
    command = shared.commands.run("cat", background=True, stdin=True)
    shared.commands.send_stdin(command.pid, text)
    for stdout, _, _ in command:
        assert stdout == text
        break
    shared.commands.close_stdin(command.pid)
    assert command.wait().exit_code == 0


def test_a_command_ends_with_its_sandbox(fresh):
    command = fresh.commands.run("sleep 60", background=True)
    fresh.kill()
    with pytest.raises(SandboxException, match="killed or reached its end of life"):
        command.wait()


def test_entries_tell_everything(shared):
    shared.files.write("entries/a.txt", "Hello")
    shared.files.make_dir("entries/sub")
    file, directory = shared.files.list("entries")
    told = (file.name, file.type, file.path, file.mode, file.permissions, file.owner, file.group, file.size, file.symlink_target)
    assert told == ("a.txt", FileType.FILE, "/home/user/entries/a.txt", 0o644, "-rw-r--r--", "user", "user", 5, None)
    assert (directory.type, directory.mode, directory.permissions) == (FileType.DIR, 0o755, "drwxr-xr-x")
    assert shared.files.get_info("entries/a.txt").modified_time is not None


def test_a_link_tells_where_it_leads(shared):
    shared.files.write("target.txt", "x")
    shared.commands.run("ln -sf target.txt link.txt")
    info = shared.files.get_info("link.txt")
    assert (info.name, info.symlink_target) == ("link.txt", "/home/user/target.txt")


def test_links_are_followed_wherever_they_lead_inside(shared):
    shared.commands.run("mkdir -p l/real && cd l && ln -s $PWD/real link && ln -s link second && ln -s nowhere broken && ln -s loop loop")
    shared.files.write("l/link/file.txt", "old")
    shared.commands.run("ln -s $PWD/l/link/file.txt l/file.txt")
    shared.files.write("l/file.txt", "new")
    assert shared.files.read("l/real/file.txt") == "new"
    told = {entry.name: (entry.type, entry.symlink_target) for entry in shared.files.list("l")}
    assert told == {
        "real": (FileType.DIR, None),
        "link": (FileType.SYMLINK, "/home/user/l/real"),
        "second": (FileType.SYMLINK, "/home/user/l/real"),
        "file.txt": (FileType.SYMLINK, "/home/user/l/link/file.txt"),
        "broken": (FileType.SYMLINK, "nowhere"),
        "loop": (FileType.SYMLINK, "loop"),
    }


def test_listings_go_as_deep_as_asked(shared):
    shared.files.make_dir("deep/a/b")
    shared.files.write("deep/f", "")
    assert [entry.name for entry in shared.files.list("deep")] == ["a", "f"]
    assert [entry.path for entry in shared.files.list("deep", depth=2)] == [f"/home/user/deep/{name}" for name in ("a", "a/b", "f")]
    with pytest.raises(Exception, match="depth should be at least 1"):
        shared.files.list("deep", depth=-1)


def test_files_are_read_in_every_format(shared):
    text = "Streamed read content. " * 10_000
    shared.files.write("formats.txt", text)
    assert shared.files.read("formats.txt", gzip=True) == text
    assert b"".join(shared.files.read("formats.txt", format="stream")).decode() == text
    assert b"".join(shared.files.read("formats.txt", format="stream", gzip=True)).decode() == text
    shared.files.write("packed.txt", text, gzip=True)
    assert bytes(shared.files.read("packed.txt", format="bytes")).decode() == text
    shared.commands.run("touch empty.txt")
    assert shared.files.read("empty.txt") == ""
    for form in ("text", "stream"):
        with pytest.raises(NotFoundException):
            shared.files.read("missing.txt", format=form)


def test_writes_replace_and_make_directories(shared):
    assert shared.files.write("new/dir/f.txt", "1").path == "/home/user/new/dir/f.txt"
    shared.files.write("new/dir/f.txt", "2")
    assert shared.files.read("new/dir/f.txt") == "2"
    assert shared.files.write_files([]) == []
    written = shared.files.write_files([{"path": f"many/{number}", "data": str(number)} for number in range(10)])
    assert [shared.files.read(info.path) for info in written] == [str(number) for number in range(10)]


@pytest.mark.parametrize("octets", [False, True])
def test_metadata_of_files(shared, octets):
    name, metadata = f"meta{octets}.txt", {"author": "me"}
    assert shared.files.write(name, "x", metadata=metadata, use_octet_stream=octets).metadata == metadata
    assert shared.files.rename(name, "moved-" + name).metadata == metadata
    assert next(entry for entry in shared.files.list(".") if entry.name == "moved-" + name).metadata == metadata
    assert shared.files.write("moved-" + name, "y").metadata is None
    assert shared.files.get_info("moved-" + name).metadata is None
    with pytest.raises(InvalidArgumentException):
        shared.files.write(name, "x", metadata={"bad key": "value"})


def test_what_is_missing_is_not_found(shared):
    for ask in (shared.files.get_info, shared.files.list, shared.files.watch_dir):
        with pytest.raises(NotFoundException):
            ask("missing")
    assert not shared.files.exists("missing")
    with pytest.raises(NotFoundException):
        shared.files.rename("missing", "other")


def test_a_watcher_tells_a_write(shared):
    shared.files.write("w1/f.txt", "x")
    watcher = shared.files.watch_dir("w1")
    shared.files.write("w1/f.txt", "y")
    first = watcher.get_new_events()[0]
    assert (first.type, first.name) == (FilesystemEventType.WRITE, "f.txt")
    watcher.stop()


def test_a_watcher_looks_into_new_directories(shared):
    shared.files.make_dir("w2")
    watcher = shared.files.watch_dir("w2", recursive=True)
    shared.files.make_dir("w2/sub")
    shared.files.write("w2/sub/f.txt", "y")
    seen = {(event.type, event.name) for event in watcher.get_new_events()}
    assert {(FilesystemEventType.CREATE, "sub"), (FilesystemEventType.WRITE, "sub/f.txt")} <= seen
    watcher.stop()


def test_a_file_is_not_watched(shared):
    shared.files.write("plain.txt", "x")
    with pytest.raises(SandboxException):
        shared.files.watch_dir("plain.txt")


def test_signed_urls_read_and_write(shared):
    shared.files.write("signed.txt", "text")
    for seconds in (None, 120):
        with urllib.request.urlopen(shared.download_url("signed.txt", "user", seconds)) as answer:
            assert answer.read() == b"text"
    with pytest.raises(urllib.error.HTTPError) as expired:
        urllib.request.urlopen(shared.download_url("signed.txt", "user", use_signature_expiration=-120))
    told = json.loads(expired.value.read())
    assert (expired.value.code, told) == (401, {"code": 401, "message": "signature is already expired"})


def test_a_fork_has_the_state_and_goes_its_own_way(fresh):
    fresh.files.write("state.txt", "before")
    one, two = fresh.fork(count=2, timeout=60)
    with one, two:
        assert len({fresh.sandbox_id, one.sandbox_id, two.sandbox_id}) == 3
        one.files.write("state.txt", "changed")
        assert [each.files.read("state.txt") for each in (fresh, one, two)] == ["before", "changed", "before"]
    with pytest.raises(InvalidArgumentException):
        Sandbox.fork(fresh.sandbox_id, count=0)


def test_snapshots_are_listed_named_and_removed(fresh):
    fresh.files.write("app/data.txt", "kept")
    snapshot = fresh.create_snapshot(name="named")
    assert any("named" in name for name in snapshot.names)
    for query in ({}, {"sandbox_id": fresh.sandbox_id}, {"name": "named"}):
        found = Sandbox.list_snapshots(**query).next_items()
        assert snapshot.snapshot_id in [each.snapshot_id for each in found]
    assert Sandbox.list_snapshots(name="other").next_items() == []
    with Sandbox.create(snapshot.snapshot_id) as one, Sandbox.create(snapshot.snapshot_id) as two:
        one.files.write("app/data.txt", "changed")
        assert two.files.read("app/data.txt") == "kept"
    assert Sandbox.delete_snapshot(snapshot.snapshot_id)
    assert not Sandbox.delete_snapshot(snapshot.snapshot_id)


def test_a_paused_sandbox_is_listed_as_paused(fresh):
    assert fresh.pause() and not fresh.is_running()
    found = Sandbox.list(query=SandboxQuery(state=[SandboxState.PAUSED])).next_items()
    assert fresh.sandbox_id in [each.sandbox_id for each in found]
    assert fresh.connect().is_running()


def test_lists_come_in_pages():
    with Sandbox.create(metadata={"pages": "1"}), Sandbox.create(metadata={"pages": "1"}):
        pages = Sandbox.list(query=SandboxQuery(metadata={"pages": "1"}), limit=1)
        first, more = pages.next_items(), pages.has_next
        second = pages.next_items()
        assert len({each.sandbox_id for each in [*first, *second]}) == 2 and more and not pages.has_next


def test_a_sandbox_ends_in_time(fresh):
    fresh.set_timeout(3)
    deadline = time.monotonic() + 60
    while fresh.is_running():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_a_sandbox_pauses_in_time_and_resumes_by_use():
    made = Sandbox.create(timeout=3, lifecycle={"on_timeout": "pause", "auto_resume": True})
    deadline = time.monotonic() + 60
    while made.get_info().state != SandboxState.PAUSED:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert made.commands.run("echo awake").stdout == "awake\n"
    made.kill()


def test_metrics_measure(fresh):
    fresh.commands.run("head -c 1000000 /dev/zero > big")
    metrics = fresh.get_metrics()[-1]
    assert metrics.cpu_count >= 1 and metrics.mem_total > 0 and metrics.disk_used >= 1_000_000


def test_git_works_on_a_local_repository(fresh):
    fresh.commands.run("git init -q repo && cd repo && git config user.email a@b && git config user.name a && touch f && git add f && git commit -qm one")
    assert fresh.git.status("repo").is_clean
