//! Limits of files: what a session may write, in all and into one file.

use super::*;

const HINT: &str =
    "The session's disk limit was reached: delete files, write less, or raise the limit `disk`.";

fn small() -> Python {
    limited(Limits {
        disk: 8 << 20,
        ..Limits::default()
    })
}

#[test]
fn l_a_file_over_the_limit_is_an_exception_and_the_session_lives() {
    let session = small();
    let result = session
        .run("with open('big.bin', 'wb') as file:\n    while True: file.write(bytes(1 << 20))");
    assert_eq!(
        told(result),
        (Status::Failure, "OSError".into(), Some(HINT.into()))
    );
    assert_eq!(
        session.value("import os\nos.path.getsize('big.bin') <= 8 << 20"),
        "True"
    );
}

#[test]
fn l_many_files_over_the_limit_end_the_cell_and_it_is_explained() {
    let code = "import time
for n in range(10**6):
    open(f'{n}.bin', 'wb').write(bytes(1 << 20))
    time.sleep(0.01)";
    let result = small().run(code);
    let error = result.error.as_ref().unwrap();
    assert_eq!(result.status, Status::Crashed);
    assert_eq!(
            error.traceback,
            "DiskLimit: the session wrote more than its 8 MiB to the workspace and was ended; delete what is not needed, or raise the limit `disk`
"
        );
    assert!(
        result.files.created.len() < 200,
        "{} files were made",
        result.files.created.len()
    );
}

#[test]
fn l_a_cell_is_not_over_the_limit_because_it_was_quick() {
    let result = small().run("for n in range(5): open(f'{n}.bin', 'wb').write(bytes(4 << 20))");
    assert_ne!(
        result.status,
        Status::Success,
        "it wrote 20 MiB where 8 MiB are allowed"
    );
}

#[test]
fn l_files_with_odd_names_count_too() {
    let result = small().run(
        "import time
for n in range(60):
    open(b'\\xff%d' % n, 'wb').write(bytes(1 << 20))
    time.sleep(0.02)",
    );
    assert_eq!(
        result.status,
        Status::Crashed,
        "it wrote 60 MiB where 8 MiB are allowed"
    );
}

#[test]
fn l_the_temporary_directory_has_an_end_too() {
    let session = small();
    let result =
        session.run("for n in range(100): open(f'/tmp/{n}.bin', 'wb').write(bytes(1 << 20))");
    assert_eq!(
        told(result),
        (Status::Failure, "OSError".into(), Some(HINT.into()))
    );
    assert_eq!(session.value("1"), "1");
}

#[test]
fn l_what_was_in_the_workspace_before_does_not_count() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("old.bin"), vec![1; 20 << 20]).unwrap();
    let session = open(builder().workspace(directory.path()).limits(Limits {
        disk: 8 << 20,
        ..Limits::default()
    }));
    session.good("import time\nopen('new.bin', 'wb').write(bytes(4 << 20))\ntime.sleep(0.5)");
}

#[test]
fn l_what_was_deleted_does_not_count() {
    let session = small();
    session.good(
        "import os, time
for n in range(10):
    open('x.bin', 'wb').write(bytes(4 << 20))
    os.remove('x.bin')
time.sleep(0.5)",
    );
}
