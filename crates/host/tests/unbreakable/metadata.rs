//! What is no content of a plain file goes back too, or is named: permissions and attributes of directories, pipes, sockets, second names.

use crate::support::{Python, builder, open, session, wait};
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

const DIE: &str = "os.kill(os.getpid(), 9)";
const LOOK_AT_DIRECTORY: &str = "oct(os.stat('d').st_mode), sorted((name, os.getxattr('d', name)) for name in os.listxattr('d')), open('d/f').read()";
/// For the files that are made in the directory: `user::rwx, group::r-x, other::---`
const DEFAULT_LIST: &str = "__import__('struct').pack('<I' + 'HHI' * 3, 2, 1, 7, 0xffffffff, 4, 5, 0xffffffff, 32, 0, 0xffffffff)";

/// Runs `change` in a cell that dies, and in one that is taken back. Each time `look` must be what it was.
fn goes_back(session: &Python, look: &str, change: &str) {
    let before = session.value(look);
    let check = |told: &[String], how: &str| {
        let now = session.value(look);
        assert!(
            now == before && told.is_empty(),
            "{how} of {change}: {before} became {now}, told: {told:?}"
        );
    };
    let result = session.run(format!("{change}\n{DIE}"));
    check(&result.state.not_restored, "the death");
    session.good(change);
    let undone = wait(session.undo(1)).unwrap();
    check(&undone.not_restored, "the undo");
}

fn changes_of_a_directory() -> Vec<String> {
    vec![
        "os.chmod('d', 0o700)".to_owned(),
        "os.chmod('d', 0o777); open('d/f', 'w').write('other')".to_owned(),
        "os.chmod('d', 0)".to_owned(),
        "os.remove('d/f'); os.chmod('d', 0o500)".to_owned(),
        "import shutil; shutil.rmtree('d')".to_owned(),
        "import shutil; shutil.rmtree('d'); os.mkdir('d', 0o711)".to_owned(),
        "os.setxattr('d', 'user.mark', b'other')".to_owned(),
        "os.setxattr('d', 'user.new', b'1'); open('d/g', 'w').close()".to_owned(),
        "os.removexattr('d', 'user.mark')".to_owned(),
        format!("os.setxattr('d', 'system.posix_acl_default', {DEFAULT_LIST})"),
    ]
}

#[test]
fn permissions_and_attributes_of_a_directory_are_put_back() {
    let session = session();
    session.good("import os; os.mkdir('d'); open('d/f', 'w').write('text')");
    session.good("os.setxattr('d', 'user.mark', b'1'); os.chmod('d', 0o750)");
    for change in changes_of_a_directory() {
        goes_back(&session, LOOK_AT_DIRECTORY, &change);
    }
    session.good(&format!(
        "os.setxattr('d', 'system.posix_acl_default', {DEFAULT_LIST})"
    ));
    goes_back(
        &session,
        LOOK_AT_DIRECTORY,
        "os.removexattr('d', 'system.posix_acl_default')",
    );
}

#[test]
fn permissions_and_attributes_of_a_directory_of_the_user_s_are_put_back() {
    let given = tempfile::tempdir().unwrap();
    let directory = given.path().join("d");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("f"), "text").unwrap();
    rustix::fs::setxattr(
        &directory,
        "user.mark",
        b"1",
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    let session = open(builder().workspace(given.path()));
    session.good("import os");
    for change in changes_of_a_directory() {
        goes_back(&session, LOOK_AT_DIRECTORY, &change);
    }
}

const LOOK_AT_ALL: &str = "sorted((name, os.stat(name).st_mode) for name in os.listdir())";
const MAKE_SOCKET: &str =
    "import socket; s = socket.socket(socket.AF_UNIX); s.bind('s'); s.close()";

#[test]
fn pipes_and_sockets_that_a_cell_made_or_removed_are_put_back_or_named() {
    let session = session();
    session.good("import os");
    goes_back(&session, LOOK_AT_ALL, "os.mkfifo('p')");
    goes_back(&session, LOOK_AT_ALL, MAKE_SOCKET);
    goes_back(&session, LOOK_AT_ALL, "os.mkdir('d'); os.mkfifo('d/p')");
    session.good("os.mkfifo('p', 0o640)");
    for change in [
        "os.remove('p')",
        "os.remove('p'); open('p', 'w').close()",
        "os.rename('p', 'q')",
        "os.chmod('p', 0o600)",
    ] {
        goes_back(&session, LOOK_AT_ALL, change);
    }
    session.good(MAKE_SOCKET);
    is_named(&session, "os.remove('s')", "s: ");
}

/// Takes back what cannot come back: that is told.
fn is_named(session: &Python, change: &str, name: &str) {
    session.good(change);
    let told = wait(session.undo(1)).unwrap().not_restored;
    assert!(
        told.len() == 1 && told[0].starts_with(name),
        "{change}: {told:?}"
    );
}

fn given_with_pipe_and_socket(directory: &Path) -> UnixListener {
    let pipe = directory.join("p");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::Mode::from_raw_mode(0o640),
    )
    .unwrap();
    UnixListener::bind(directory.join("s")).unwrap()
}

#[test]
fn pipes_and_sockets_of_the_user_s_are_put_back_or_named() {
    let given = tempfile::tempdir().unwrap();
    let _listener = given_with_pipe_and_socket(given.path());
    let session = open(builder().workspace(given.path()));
    session.good("import os");
    for change in [
        "os.remove('p')",
        "os.remove('p'); open('p', 'w').close()",
        "os.rename('p', 'q')",
        "os.chmod('p', 0o600)",
        "os.rename('s', 't')",
        "os.close(os.open('p', os.O_RDWR))",
    ] {
        goes_back(&session, LOOK_AT_ALL, change);
    }
    is_named(&session, "os.remove('s')", "s: ");
}

#[test]
fn second_names_of_files_of_the_user_s_are_put_back() {
    let given = tempfile::tempdir().unwrap();
    fs::write(given.path().join("a"), "text").unwrap();
    fs::hard_link(given.path().join("a"), given.path().join("b")).unwrap();
    let session = open(builder().workspace(given.path()));
    session.good("import os");
    let look =
        "os.path.samefile('a', 'b'), open('a').read(), open('b').read(), os.stat('a').st_nlink";
    for change in [
        "os.remove('b')",
        "os.remove('b'); open('b', 'w').write('other')",
        "open('a', 'w').write('other')",
        "os.link('a', 'c')",
        "os.remove('a'); os.remove('b')",
        "os.remove('a'); os.rename('b', 'c')",
    ] {
        goes_back(&session, look, change);
    }
}
