//! The workspace goes back with the variables.

use crate::support::{builder, open, session};
use cellblock::{CellResult, StateOutcome, Status};

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
    crate::support::wait(session.put_file("given", b"by the host".to_vec())).unwrap();
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
