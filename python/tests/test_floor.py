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
