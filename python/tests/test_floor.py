"""What editors, web pages and other front ends ask of a session."""

import pytest

import cellblock
from cellblock import Begun, ClearOutput, Display, Finished, Stdout


def test_an_editor_asks(session):
    session.run("def area(width, height=2):\n    'The area.'\n    return width * height")
    assert [one.text for one in session.complete("are")] == ["area"]
    first = session.complete("area(wi")[0]
    assert first == ("width=", 5, 7, "param")
    assert "The area." in session.inspect_at("area(3, ")["text/plain"]
    assert "return width" in session.inspect_at("area", detail=1)["text/plain"]
    assert session.inspect_at("nothing_there") is None
    assert session.is_complete("for x in y:") == ("incomplete", "    ")
    assert session.is_complete("1 +").status == "invalid"


def test_files_by_absolute_path(session):
    large = bytes(range(256)) * 50_000
    session.files.write("/tmp/deep/large.bin", large)
    assert session.run("import os; os.path.getsize('/tmp/deep/large.bin')").value(int) == len(large)
    assert session.files.read("/tmp/deep/large.bin") == large
    session.files.write("/tmp/deep/large.bin", b"short")
    assert session.files.stat("/tmp/deep/large.bin").bytes == 5
    session.files.write("/workspace/empty", b"")
    assert session.files.read("empty") == b""
    session.files.make_dir("/tmp/other")
    session.files.move("/tmp/deep/large.bin", "/tmp/other/file")
    assert [(one.path, one.kind) for one in session.files.list_dir("/tmp", depth=2)] == [
        ("/tmp/deep", "directory"),
        ("/tmp/other", "directory"),
        ("/tmp/other/file", "file"),
    ]
    session.files.remove("/tmp/other")
    with pytest.raises(cellblock.Refused, match="No such file"):
        session.files.stat("/tmp/other")
    with pytest.raises(cellblock.Refused, match="read-only"):
        session.files.write("/usr/x", b"")


def test_all_events_of_a_session_are_read_by_number(session):
    session.run("print('one')")
    session.run("2")
    events = list(session.events(follow=False))
    kinds = [type(one.event) for one in events if one.cell == 1]
    assert kinds == [Begun, Stdout, Finished]
    assert [one.seq for one in events] == list(range(1, len(events) + 1))
    assert list(session.events(after=events[1].seq, follow=False)) == events[2:]
    with pytest.raises(cellblock.Refused, match="not all there") as raised:
        list(session.events(after=10_000, follow=False))
    assert raised.value.code == "gap"


def test_displays_are_updated_and_taken_back(session):
    code = "h = display(1, display_id='a')\nh.update(2)\nclear_output()\ndisplay(3)"
    *events, last = session.stream(code)
    assert [type(event) for event in events] == [Display, Display, ClearOutput, Display]
    assert (events[1].update, events[1].display_id, events[0].update) == (True, "a", False)
    assert [dict(mime) for mime in last.result.displays] == [{"text/plain": "3"}]


def test_what_is_special_about_one_cell(session):
    read = "import os; os.environ.get('A')"
    assert session.run(read, env={"A": "1"}).value(str) == "1"
    assert session.run(read).text == ""
    assert session.run("5", silent=True).text == ""


def test_a_session_is_paused_and_goes_on(session):
    session.run("x = 1")
    session.pause()
    with pytest.raises(cellblock.Refused, match="paused") as raised:
        session.vars()
    assert raised.value.code == "paused"
    session.resume()
    assert session.get("x", int) == 1


def test_a_state_is_kept_aside(session):
    session.run("x = 1")
    assert session.freeze("first") == "first"
    session.run("x = 2")
    other = session.open_from("first")
    assert (other.get("x", int), session.get("x", int)) == (1, 2)
    other.close()
    with pytest.raises(cellblock.Refused, match="snapshot `first` already"):
        session.freeze("first")
    session.discard("first")
    with pytest.raises(cellblock.Refused, match="no snapshot"):
        session.open_from("first")


def test_the_workspace_is_where_it_was_asked_for(flavour):
    session = flavour.open(workspace_at="/home/ada")
    code = "import os, pwd; (os.getcwd(), pwd.getpwuid(os.getuid()).pw_name, os.path.expanduser('~'))"
    assert session.run(code).value() == ("/home/ada", "ada", "/home/ada")
    session.files.write("/home/ada/a.txt", b"1")
    assert [one.path for one in session.files.list_dir()] == ["/home/ada/a.txt"]
    assert session.fork().run("__import__('os').getcwd()").value() == "/home/ada"
    with pytest.raises(cellblock.Refused, match="workspace_at"):
        flavour.open(workspace_at="/usr/x")


def test_large_files_cross_whole_and_exactly(session, tmp_path):
    contents = bytes(range(256)) * (80 << 10) + b"end"  # 20 MB: more than one line holds
    session.files.write("/tmp/large", contents)
    session.files.write("large", contents)
    assert session.files.read("/tmp/large") == contents
    assert session.files.read("large") == contents
    code = "import hashlib; [hashlib.sha256(open(p, 'rb').read()).hexdigest() for p in ('/tmp/large', 'large')]"
    import hashlib

    assert session.run(code).value() == [hashlib.sha256(contents).hexdigest()] * 2
    (tmp_path / "up").write_bytes(contents)
    session.files.upload(tmp_path / "up", "deep/up")
    session.files.download("deep/up", tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == contents
    assert session.run("1").cell == 2  # no cell of ours was run for it


def test_a_shorter_file_takes_the_place_of_a_longer_one(session):
    session.files.write("/tmp/f", bytes(5 << 20))
    session.files.write("/tmp/f", b"x" * (2 << 20))
    assert session.files.read("/tmp/f") == b"x" * (2 << 20)


def test_files_cross_in_parts_where_no_descriptor_can_be_handed_over(session, monkeypatch):
    monkeypatch.setattr("cellblock._transfer._file_in_memory", lambda: None)
    contents = bytes(9 << 20) + b"end"
    session.files.write("/tmp/large", contents)
    assert session.files.read("/tmp/large") == contents


def test_what_is_no_plain_file_is_not_taken(session):
    import os

    end, other = os.pipe()
    core = getattr(session, "_inner", session)._core
    from cellblock._plans import drive

    def plan(descriptor):
        return (yield {"op": "copy_in", "path": "x", "process": os.getpid(), "descriptor": descriptor})

    for descriptor in (end, 99_999):
        with pytest.raises(cellblock.Refused) as raised:
            drive(core.connection, core.name, plan(descriptor))
        assert raised.value.code == "descriptor"
    os.close(end)
    os.close(other)
