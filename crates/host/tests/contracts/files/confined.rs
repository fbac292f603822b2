//! Nothing leads out of the workspace.

use super::{get, put};
use crate::support::{Python, session, wait};
use std::fs;

fn refused(session: &Python, path: &str) {
    let read = wait(session.get_file(path)).unwrap_err();
    let written = wait(session.put_file(path, b"x".to_vec())).unwrap_err();
    assert_eq!((read.code(), written.code()), ("file", "file"), "{path:?}");
}

#[test]
fn no_path_leads_out_of_the_workspace() {
    let session = session();
    put(&session, "sub/a.txt", b"a");
    for path in [
        "/etc/passwd",
        "../x",
        "sub/../../x",
        "..",
        "",
        ".",
        "/",
        "sub",
        "a\0b",
        "sub/a.txt/x",
        "/workspace/sub/a.txt/../../../x",
    ] {
        refused(&session, path);
    }
    let too_long = "x/".repeat(3000) + "x";
    refused(&session, &too_long);
}

#[test]
fn no_link_leads_out_of_the_workspace() {
    let canary = tempfile::tempdir().unwrap();
    fs::write(canary.path().join("secret"), "secret").unwrap();
    let session = session();
    session.good(&format!(
        "import os
os.symlink({0:?} + '/secret', 'file')
os.symlink({0:?}, 'directory')
os.symlink('/proc/self/root/etc', 'magic')
os.symlink('loop', 'loop')
os.symlink('..', 'up')",
        canary.path()
    ));
    for path in [
        "file",
        "directory/secret",
        "directory/new",
        "magic/passwd",
        "loop",
        "up/x",
    ] {
        refused(&session, path);
    }
    assert_eq!(wait(session.list_files()).unwrap(), []);
    assert_eq!(
        fs::read_to_string(canary.path().join("secret")).unwrap(),
        "secret"
    );
    assert!(!canary.path().join("new").exists());
}

#[test]
fn a_pipe_or_a_socket_in_the_workspace_does_not_hold_the_host_up() {
    let session = session();
    session.good(
        "import os, socket
os.mkfifo('pipe')
server = socket.socket(socket.AF_UNIX)
server.bind('socket')",
    );
    for path in ["pipe", "socket"] {
        let reading =
            async { tokio::time::timeout(crate::support::MAX_WAIT, session.get_file(path)).await };
        assert_eq!(
            wait(reading)
                .expect("it waits for ever")
                .unwrap_err()
                .code(),
            "file",
            "{path}"
        );
        let writing = async {
            tokio::time::timeout(crate::support::MAX_WAIT, session.put_file(path, vec![1])).await
        };
        assert_eq!(
            wait(writing)
                .expect("it waits for ever")
                .unwrap_err()
                .code(),
            "file",
            "{path}"
        );
    }
}

#[test]
fn the_error_says_that_a_link_leads_out() {
    let session = session();
    session.good("import os\nos.symlink('/etc/passwd', 'link')");
    assert_eq!(
        get(&session, "link").unwrap_err(),
        "the file `link` in the workspace: it leads out of the workspace"
    );
}
