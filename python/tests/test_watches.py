"""Watched directories."""

import pytest

import cellblock
from cellblock import FileChange

MINUTE = 60.0


def taken(watch, count):
    """So many changes, as they come."""
    changes = []
    while len(changes) < count:
        more = watch.take(MINUTE)
        assert more, changes
        changes += more
    return changes


def test_changes_of_cells_come_in_order(session):
    watch = session.watch()
    session.run("import os; open('a', 'w').write('x'); os.rename('a', 'b'); os.remove('b')")
    assert taken(watch, 4) == [
        FileChange("create", "/workspace/a"),
        FileChange("write", "/workspace/a"),
        FileChange("rename", "/workspace/a", "/workspace/b"),
        FileChange("remove", "/workspace/b"),
    ]
    watch.close()
    assert watch.is_over
    assert watch.take(MINUTE) == []
    watch.close()


def test_directories_below_are_watched_when_that_is_wanted(session):
    session.run("import os; os.makedirs('/tmp/d/e')")
    with pytest.raises(cellblock.Refused, match="No such file"):
        session.watch("/tmp/gone")
    deep, flat = session.watch("/tmp/d", recursive=True), session.watch("/tmp/d")
    session.run("open('/tmp/d/e/f', 'w').close(); open('/tmp/d/g', 'w').close()")
    assert taken(deep, 2) == [FileChange("create", "/tmp/d/e/f"), FileChange("create", "/tmp/d/g")]
    assert taken(flat, 1) == [FileChange("create", "/tmp/d/g")]


def test_a_watch_goes_on_through_undo_and_ends_with_its_session(session):
    watch = session.watch()
    session.run("open('a', 'w').close()")
    session.undo()
    assert taken(watch, 2) == [FileChange("create", "/workspace/a"), FileChange("remove", "/workspace/a")]
    session.run("open('b', 'w').close()")
    assert taken(watch, 1) == [FileChange("create", "/workspace/b")]
    session.close()
    assert list(watch) == []
    assert watch.is_over
