//! D7: the directory itself.

use super::put;
use crate::support::{builder, open, session, wait};
use cellblock_protocol::Rung;
use std::fs;

#[test]
fn d7_the_working_directory_is_the_workspace() {
    let session = session();
    let expected = match session.rung() {
        Rung::Full => "/workspace".into(),
        _ => session.workspace().display().to_string(),
    };
    assert_eq!(
        session.stdout("import os\nprint(os.getcwd(), end='', flush=True)"),
        expected
    );
}

#[test]
fn d7_host_and_cells_see_the_same_files() {
    let session = session();
    session.good("open('from_the_cell.txt', 'w').write('cell')");
    assert_eq!(
        fs::read(session.workspace().join("from_the_cell.txt")).unwrap(),
        b"cell"
    );
    fs::write(session.workspace().join("from_the_host.txt"), "host").unwrap();
    assert_eq!(session.value("open('from_the_host.txt').read()"), "'host'");
}

#[test]
fn d7_a_directory_of_the_users_is_used_and_stays_as_it_was_left() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("given.txt"), "given").unwrap();
    let session = open(builder().workspace(directory.path()));
    assert_eq!(
        session.workspace(),
        directory.path().canonicalize().unwrap()
    );
    assert_eq!(
        session
            .value("text = open('given.txt').read()\nopen('made.txt', 'w').write(text * 2)\ntext"),
        "'given'"
    );
    wait(session.close());
    assert_eq!(
        fs::read_to_string(directory.path().join("made.txt")).unwrap(),
        "givengiven"
    );
    fs::remove_file(directory.path().join("made.txt"))
        .expect("it belongs to the user who runs this test");
}

#[test]
fn d7_a_fresh_workspace_survives_its_session_unless_it_is_empty() {
    let (kept, empty) = (session(), session());
    kept.good("open('answer.txt', 'w').write('42')");
    let (kept_path, empty_path) = (kept.workspace().to_owned(), empty.workspace().to_owned());
    wait(kept.close());
    wait(empty.close());
    drop((kept, empty));
    assert_eq!(
        fs::read_to_string(kept_path.join("answer.txt")).unwrap(),
        "42"
    );
    crate::support::eventually("the empty workspace is gone", || !empty_path.exists());
    fs::remove_dir_all(kept_path).unwrap();
}

#[test]
fn d7_two_sessions_have_two_workspaces() {
    let (one, other) = (session(), session());
    one.good("open('mine.txt', 'w').write('1')");
    assert_eq!(other.value("import os\nos.listdir()"), "[]");
}

#[test]
fn d7_the_same_name_twice_is_two_workspaces() {
    let (one, other) = (open(builder().name("twin")), open(builder().name("twin")));
    assert_ne!(one.workspace(), other.workspace());
}

#[test]
fn a_module_in_the_workspace_can_be_imported() {
    let session = session();
    put(&session, "helper.py", b"def f():\n    return 1/0\n");
    let error = session.run("import helper\nhelper.f()").error.unwrap();
    assert_eq!(error.repr, "ZeroDivisionError('division by zero')");
    let frames: Vec<_> = error
        .frames
        .iter()
        .map(|frame| (frame.function.as_str(), frame.source.as_str()))
        .collect();
    assert_eq!(frames, [("<module>", "helper.f()"), ("f", "return 1/0")]);
}

#[test]
fn the_temporary_directory_is_the_sessions_own() {
    let (one, other) = (session(), session());
    assert_eq!(
        one.value(
            "import os, tempfile
open('/tmp/secret', 'w').write('x')
os.path.dirname(tempfile.mkdtemp())"
        ),
        "'/tmp'"
    );
    assert_eq!(
        other.value("import os\nos.path.exists('/tmp/secret')"),
        "False"
    );
    assert!(!std::path::Path::new("/tmp/secret").exists());
    assert!(
        one.good("open('/tmp/more', 'w').write('x')")
            .files
            .is_empty(),
        "it is no file of the workspace"
    );
}
