//! Files in and out.

use super::{changes, get, put};
use crate::support::{session, wait};
use std::fs;

#[test]
fn files_go_in_and_out() {
    let session = session();
    let every_byte: Vec<u8> = (0..=255).cycle().take(5_000_000).collect();
    put(&session, "in/deep/data.bin", &every_byte);
    assert_eq!(
        session.value(
            "data = open('in/deep/data.bin', 'rb').read()
len(data), data[:256] == bytes(range(256))"
        ),
        "(5000000, True)"
    );
    session.good("open('in/out.bin', 'wb').write(data[::-1])");
    assert!(
        get(&session, "in/out.bin")
            .unwrap()
            .iter()
            .eq(every_byte.iter().rev())
    );
}

#[test]
fn putting_a_file_replaces_the_one_that_was_there() {
    let session = session();
    put(&session, "a.txt", b"a long text");
    put(&session, "a.txt", b"short");
    assert_eq!(session.value("open('a.txt').read()"), "'short'");
    session.good("open('a.txt', 'a').write(' and longer')");
    assert_eq!(get(&session, "a.txt").unwrap(), b"short and longer");
}

#[test]
fn files_are_listed_with_size_type_and_time() {
    let session = session();
    put(&session, "b/table.csv", b"1,2");
    session.good(
        "import os
open('a.png', 'wb').write(b'png')
os.mkdir('empty')
os.symlink('a.png', 'link.png')
os.mkfifo('pipe')",
    );
    let files = wait(session.list_files()).unwrap();
    let listed: Vec<_> = files
        .iter()
        .map(|file| (file.path.as_str(), file.bytes, file.mime.as_str()))
        .collect();
    assert_eq!(
        listed,
        [("a.png", 3, "image/png"), ("b/table.csv", 3, "text/csv")]
    );
    assert!(
        files
            .iter()
            .all(|file| file.modified.is_some_and(|time| time > 1.6e9))
    );
}

#[test]
fn a_file_that_is_not_there_is_a_clear_error() {
    let session = session();
    session.good("import os\nos.mkdir('directory')");
    assert_eq!(
        get(&session, "none.txt").unwrap_err(),
        "the file `none.txt` in the workspace: No such file or directory (os error 2)"
    );
    let error = wait(session.get_file("directory")).unwrap_err();
    assert_eq!(error.code(), "file");
}

#[test]
fn odd_names_are_names_too() {
    let session = session();
    for name in [
        "a b.txt",
        "new\nline.txt",
        "世界.txt",
        "-rf",
        "..dots",
        "quote'\".txt",
    ] {
        put(&session, name, b"x");
        assert_eq!(get(&session, name).unwrap(), b"x");
    }
    assert_eq!(wait(session.list_files()).unwrap().len(), 6);
}

#[test]
fn a_name_that_is_no_utf_8_does_no_harm() {
    let session = session();
    let result =
        session.good("open(b'bad\\xff.txt', 'w').write('x')\nopen('good.txt', 'w').write('y')");
    let paths: Vec<_> = result
        .files
        .created
        .into_iter()
        .map(|file| file.path)
        .collect();
    assert_eq!(paths, ["bad\u{fffd}.txt", "good.txt"]);
    assert_eq!(wait(session.list_files()).unwrap().len(), 2);
}

#[test]
fn what_the_host_changes_between_cells_is_not_the_next_cells_doing() {
    let session = session();
    session.good("open('a.txt', 'w').write('a')");
    put(&session, "b.txt", b"b");
    fs::write(session.workspace().join("a.txt"), "changed").unwrap();
    assert!(session.good("open('a.txt').read()").files.is_empty());
    assert_eq!(
        session.good("open('b.txt', 'a').write('!')").files,
        changes(&[], &[("b.txt", 2)], &[])
    );
}
