//! The workspace goes back with the variables.

use crate::support::{builder, is_root, open, session, wait};
use cellblock_protocol::{CellResult, StateOutcome, Status};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown};

const DIE: &str = "import os; os.kill(os.getpid(), 9)";

fn restored(result: &CellResult) {
    assert_eq!(
        (result.status, result.state.outcome),
        (Status::Crashed, StateOutcome::Restored)
    );
    assert_eq!(result.state.not_restored, Vec::<String>::new());
}

#[test]
fn created_changed_and_deleted_files_are_put_back() {
    let session = session();
    session.good("import os\nos.makedirs('d/e')\nfor name in ('a', 'b', 'd/e/f'):\n    open(name, 'w').write(name)");
    let result = session.run(format!("open('a', 'w').write('changed'); os.remove('b'); os.remove('d/e/f'); os.rmdir('d/e'); open('new', 'w').write('!'); os.mkdir('dir'); {DIE}"));
    restored(&result);
    let listing = "sorted(os.path.join(p, n) for p, _, names in os.walk('.') for n in names), sorted(os.listdir()), open('a').read(), open('d/e/f').read()";
    assert_eq!(
        session.value(listing),
        "(['./a', './b', './d/e/f'], ['a', 'b', 'd'], 'a', 'd/e/f')"
    );
}

#[test]
fn an_open_handle_sees_the_file_that_was_put_back() {
    let session = session();
    session.good("open('a', 'w').write('one'); file = open('a')");
    let result = session.run(format!("open('a', 'w').write('two'); {DIE}"));
    restored(&result);
    assert_eq!(session.value("file.read()"), "'one'");
}

#[test]
fn links_are_put_back_as_links() {
    let session = session();
    session.good("import os; os.symlink('/etc/passwd', 'link')");
    let result = session.run(format!(
        "os.remove('link'); open('link', 'w').write('!'); {DIE}"
    ));
    restored(&result);
    assert_eq!(session.value("os.readlink('link')"), "'/etc/passwd'");
}

#[test]
fn what_was_put_in_between_two_cells_stays() {
    let session = session();
    session.good("x = 1");
    wait(session.put_file("given", b"by the host".to_vec())).unwrap();
    let result = session.run(format!("open('given', 'w').write('!'); {DIE}"));
    restored(&result);
    assert_eq!(session.value("open('given').read()"), "'by the host'");
}

#[test]
fn files_of_the_users_own_are_put_back_too() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("data"), "precious").unwrap();
    let session = open(builder().workspace(directory.path()));
    session.good("x = 1");
    let result = session.run(format!("open('data', 'w').write('lost?'); {DIE}"));
    restored(&result);
    assert_eq!(
        std::fs::read_to_string(directory.path().join("data")).unwrap(),
        "precious"
    );
}

#[test]
fn permissions_are_put_back() {
    let session = session();
    session.good("import os; open('a', 'w').close(); os.chmod('a', 0o640)");
    restored(&session.run(format!("os.chmod('a', 0o777); {DIE}")));
    assert_eq!(
        session.value("oct(os.stat('a').st_mode & 0o777)"),
        "'0o640'"
    );
}

#[test]
fn a_file_that_may_only_be_read_is_put_back() {
    let session = session();
    session.good("import os; open('a', 'w').write('one'); os.chmod('a', 0o444)");
    restored(&session.run(format!(
        "os.chmod('a', 0o644); open('a', 'w').write('two'); os.chmod('a', 0o400); {DIE}"
    )));
    assert_eq!(
        session.value("open('a').read(), oct(os.stat('a').st_mode & 0o777)"),
        "('one', '0o444')"
    );
}

#[test]
fn what_is_put_back_belongs_to_whom_it_belonged() {
    if !is_root() {
        // Nobody else can own files of others.
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    std::fs::create_dir(place("d")).unwrap();
    std::fs::set_permissions(place("d"), std::fs::Permissions::from_mode(0o750)).unwrap();
    for name in ["theirs", "d/theirs"] {
        std::fs::write(place(name), "precious").unwrap();
        std::fs::set_permissions(place(name), std::fs::Permissions::from_mode(0o640)).unwrap();
    }
    std::os::unix::fs::symlink("theirs", place("link")).unwrap();
    for name in ["", "d", "theirs", "d/theirs", "link"] {
        lchown(place(name), Some(4711), Some(4712)).unwrap();
    }
    let access = |name: &str| {
        let found = std::fs::symlink_metadata(place(name)).unwrap();
        (found.uid(), found.gid(), found.mode())
    };
    let all = ["d", "theirs", "d/theirs", "link"];
    let before = all.map(access);
    let session = open(builder().workspace(directory.path()));
    session.good("x = 1");
    let wipe = "import os, shutil; shutil.rmtree('d'); [os.remove(name) for name in os.listdir()]";
    restored(&session.run(format!("{wipe}; {DIE}")));
    assert_eq!(all.map(access), before);
    session.good(wipe);
    wait(session.undo(1)).unwrap();
    assert_eq!(all.map(access), before);
    // And what is put in belongs to the owner of the directory, so that the code can change it.
    wait(session.put_file("new/file", b"1".to_vec())).unwrap();
    assert_eq!((access("new").0, access("new/file").0), (4711, 4711));
    session.good("open('new/file', 'w').write('2')");
}

#[test]
fn two_sessions_in_one_directory_both_go_back() {
    let directory = tempfile::tempdir().unwrap();
    let sessions = [(); 2].map(|()| open(builder().workspace(directory.path())));
    for (session, name) in sessions.iter().zip(["a", "b"]) {
        session.good(&format!("open('{name}', 'w').write('1')"));
    }
    for (session, name) in sessions.iter().zip(["a", "b"]) {
        let result = session.run(format!("open('{name}', 'w').write('22')"));
        assert_eq!(result.files.changed.len(), 1, "{result:?}");
        restored(&session.run(format!("open('{name}', 'w').write('333'); {DIE}")));
        let text = std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(text, "22");
    }
}
