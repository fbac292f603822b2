//! Watched directories: what is made, written to, renamed and removed is told, in order.

use crate::support::{Python, session, wait};
use cellblock_protocol::{WatchedChange, WatchedChangeKind};
use cellblock_session::{Below, Existing, MAX_WATCHES, PathWatch};

/// The changes since the last call. What a cell did is with the kernel when the cell ends.
fn told(watch: &mut PathWatch) -> Vec<String> {
    wait(watch.take()).iter().map(line).collect()
}

fn line(change: &WatchedChange) -> String {
    let kind = match change.kind {
        WatchedChangeKind::Create => "create",
        WatchedChangeKind::Write => "write",
        WatchedChangeKind::Rename => "rename",
        WatchedChangeKind::Remove => "remove",
        WatchedChangeKind::Attributes => "attributes",
        WatchedChangeKind::Lost => "lost",
    };
    let to = change.to.as_ref().map(|to| format!(" {to}"));
    format!("{kind} {}{}", change.path, to.unwrap_or_default())
}

fn watch(session: &Python, path: &str, below: Below) -> PathWatch {
    wait(session.paths().watch(path, below)).unwrap()
}

#[test]
fn changes_of_the_workspace_and_of_tmp_are_told_in_order() {
    let session = session();
    for place in ["/workspace", "/tmp", "/dev/shm"] {
        let mut watch = watch(&session, place, Below::NotWatched);
        session.good(
            format!(
                "import os\nos.chdir({place:?})\nwith open('a', 'w') as f:\n    for _ in range(99): f.write('x'); f.flush()\nos.rename('a', 'b')\nos.chmod('b', 0o600)\nos.mkdir('d')\nopen('d/unseen', 'w').close()\nos.remove('b')\nopen('d/unseen', 'w').close()"
            )
            .as_str(),
        );
        let expected = [
            "create a",
            "write a",
            "rename a b",
            "attributes b",
            "create d",
            "remove b",
        ];
        let told: Vec<String> = told(&mut watch)
            .iter()
            .map(|line| line.replace(&format!("{place}/"), ""))
            .collect();
        assert_eq!(told, expected, "{place}");
    }
}

#[test]
fn directories_below_are_watched_also_those_that_are_made_moved_and_brought_in() {
    let session = session();
    session.good("import os\nos.makedirs('old/er'); os.makedirs('/tmp/aside/in')");
    let mut watch = watch(&session, "/workspace/", Below::Watched);
    // All at once: the files are there before their directory is watched.
    session.good("os.makedirs('new/er'); open('new/er/file', 'w').write('x')");
    assert_eq!(
        told(&mut watch),
        [
            "create /workspace/new",
            "create /workspace/new/er",
            "create /workspace/new/er/file",
            "write /workspace/new/er/file"
        ]
    );
    session.good("open('new/er/file', 'a').write('y'); open('old/er/other', 'w').close()");
    assert_eq!(
        told(&mut watch),
        [
            "write /workspace/new/er/file",
            "create /workspace/old/er/other"
        ]
    );
    session.good("os.rename('new', 'old/moved'); open('old/moved/er/file', 'a').write('z')");
    assert_eq!(
        told(&mut watch),
        [
            "rename /workspace/new /workspace/old/moved",
            "write /workspace/old/moved/er/file"
        ]
    );
    session.good("import shutil\nshutil.rmtree('old/moved')");
    assert_eq!(
        told(&mut watch),
        [
            "remove /workspace/old/moved/er/file",
            "remove /workspace/old/moved/er",
            "remove /workspace/old/moved"
        ]
    );
}

#[test]
fn a_link_is_told_but_not_followed() {
    let session = session();
    session.good("import os\nos.mkdir('/tmp/elsewhere'); os.symlink('/tmp/elsewhere', 'link')");
    let mut watched = watch(&session, "/workspace", Below::Watched);
    session
        .good("os.symlink('/tmp/elsewhere', 'other'); open('/tmp/elsewhere/file', 'w').write('x')");
    assert_eq!(told(&mut watched), ["create /workspace/other"]);
    let refused = wait(session.paths().watch("/workspace/link", Below::NotWatched));
    assert!(refused.is_err());
    let refused = wait(session.paths().watch("/workspace/gone", Below::NotWatched));
    assert!(refused.unwrap_err().to_string().contains("No such file"));
    session.good("open('file', 'w').close()");
    let refused = wait(session.paths().watch("/workspace/file", Below::NotWatched));
    assert!(refused.is_err());
}

#[test]
fn a_watch_goes_on_through_undo_and_crash_and_tells_what_they_changed() {
    let session = session();
    session.good("open('kept', 'w').write('1')");
    let mut watch = watch(&session, "/workspace", Below::Watched);
    session.good("open('made', 'w').write('2')");
    assert_eq!(
        told(&mut watch),
        ["create /workspace/made", "write /workspace/made"]
    );
    wait(session.undo(1)).unwrap();
    assert_eq!(told(&mut watch), ["remove /workspace/made"]);
    session.good("import os");
    let crashed = session.run("os.remove('kept'); os.abort()");
    assert_eq!(crashed.state.not_restored, Vec::<String>::new());
    let changes = told(&mut watch);
    assert_eq!(changes.first().unwrap(), "remove /workspace/kept");
    assert!(
        changes.contains(&"create /workspace/kept".to_owned())
            || changes.contains(&"write /workspace/kept".to_owned()),
        "{changes:?}"
    );
    session.good("open('after', 'w').close()");
    assert_eq!(told(&mut watch), ["create /workspace/after"]);
}

#[test]
fn a_directory_that_is_removed_and_made_again_is_watched_again() {
    let session = session();
    session.good("import os\nos.mkdir('d')");
    let mut watch = watch(&session, "/workspace/d", Below::NotWatched);
    session.good("os.rmdir('d')");
    assert_eq!(told(&mut watch), ["remove /workspace/d"]);
    session.good("os.mkdir('d'); open('d/first', 'w').close()");
    assert_eq!(
        told(&mut watch),
        ["create /workspace/d", "create /workspace/d/first"]
    );
    session.good("os.rename('d', 'e'); open('e/unseen', 'w').close()");
    assert_eq!(told(&mut watch), ["remove /workspace/d"]);
    session.good("os.rename('e', 'd')");
    let back = wait(watch.next()).unwrap();
    assert_eq!(line(&back[0]), "create /workspace/d");
    session.good("open('d/second', 'w').close()");
    assert_eq!(told(&mut watch), ["create /workspace/d/second"]);
}

#[test]
fn a_flood_of_changes_is_bounded_and_told_as_lost() {
    let session = session();
    let mut watch = watch(&session, "/tmp", Below::Watched);
    session.good(
        "import os\nfor i in range(30_000):\n    os.symlink('x', '/tmp/l'); os.remove('/tmp/l')",
    );
    let changes = told(&mut watch);
    assert!(changes.len() < 50_000, "{}", changes.len());
    assert!(changes.contains(&"lost /tmp".to_owned()));
    session.good("open('/tmp/after', 'w').close()");
    assert_eq!(told(&mut watch), ["create /tmp/after"]);
}

#[test]
fn a_watch_waits_while_a_cell_runs_and_ends_with_its_session() {
    let session = session();
    let mut watch = watch(&session, "/workspace", Below::NotWatched);
    let code = "import os, time\nopen('here', 'w').close()\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)";
    let running = session.start(code).0;
    let changes = wait(watch.next()).unwrap();
    assert_eq!(line(&changes[0]), "create /workspace/here");
    let go = session.paths();
    wait(go.write("/tmp/go", 0, Vec::new(), Existing::Kept)).unwrap();
    wait(running.result()).unwrap();
    wait(session.close());
    assert_eq!(wait(watch.next()), None);
}

#[test]
fn the_watches_of_a_session_are_counted() {
    let session = session();
    let mut watches: Vec<PathWatch> = (0..MAX_WATCHES)
        .map(|_| watch(&session, "/tmp", Below::NotWatched))
        .collect();
    let refused = wait(session.paths().watch("/tmp", Below::NotWatched));
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("end a watch first")
    );
    watches.pop();
    watches.push(watch(&session, "/tmp", Below::NotWatched));
    session.good("open('/tmp/a', 'w').close()");
    for watch in &mut watches {
        assert_eq!(told(watch), ["create /tmp/a"]);
    }
}
