//! What a cell did to the files.

use super::changes;
use crate::support::{builder, open, session};
use std::fs;

#[test]
fn created_changed_and_deleted_files_are_told_apart() {
    let session = session();
    let made = session
        .good("for name in ('a.txt', 'b.txt', 'c.txt'): open(name, 'w').write(name)")
        .files;
    assert_eq!(
        made,
        changes(&[("a.txt", 5), ("b.txt", 5), ("c.txt", 5)], &[], &[])
    );
    let worked = session
        .good(
            "import os
open('a.txt', 'a').write('!')
os.remove('b.txt')
open('d.json', 'w').write('{}')",
        )
        .files;
    assert_eq!(
        worked,
        changes(&[("d.json", 2)], &[("a.txt", 6)], &[("b.txt", 5)])
    );
    assert!(
        session
            .good("open('c.txt').read(), os.listdir()")
            .files
            .is_empty()
    );
}

#[test]
fn files_in_directories_that_the_cell_makes_are_seen() {
    let session = session();
    let made = session
        .good(
            "import os
os.makedirs('a/b/c')
open('a/b/c/deep.txt', 'w').write('x')
open('a/top.txt', 'w').write('y')",
        )
        .files;
    assert_eq!(
        made,
        changes(&[("a/b/c/deep.txt", 1), ("a/top.txt", 1)], &[], &[])
    );
    assert_eq!(
        session.good("open('a/b/c/deep.txt', 'a').write('x')").files,
        changes(&[], &[("a/b/c/deep.txt", 2)], &[])
    );
    let gone = session.good("import shutil\nshutil.rmtree('a')").files;
    assert_eq!(
        gone,
        changes(&[], &[], &[("a/b/c/deep.txt", 2), ("a/top.txt", 1)])
    );
}

#[test]
fn files_that_were_there_before_the_session_are_known() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("sub")).unwrap();
    fs::write(directory.path().join("sub/old.txt"), "old").unwrap();
    fs::write(directory.path().join("other.txt"), "other").unwrap();
    let session = open(builder().workspace(directory.path()));
    let changed = session
        .good("import os\nopen('sub/old.txt', 'w').write('newer')\nos.remove('other.txt')")
        .files;
    assert_eq!(
        changed,
        changes(&[], &[("sub/old.txt", 5)], &[("other.txt", 5)])
    );
}

#[test]
fn a_renamed_file_is_gone_here_and_new_there() {
    let session = session();
    session.good("import os\nopen('a.txt', 'w').write('abc')");
    assert_eq!(
        session.good("os.rename('a.txt', 'b.txt')").files,
        changes(&[("b.txt", 3)], &[], &[("a.txt", 3)])
    );
}

#[test]
fn a_renamed_directory_takes_its_files_with_it() {
    let session = session();
    session.good("import os\nos.makedirs('old/sub')\nopen('old/sub/a.txt', 'w').write('abc')");
    let moved = session.good("os.rename('old', 'new')").files;
    assert_eq!(
        moved,
        changes(&[("new/sub/a.txt", 3)], &[], &[("old/sub/a.txt", 3)])
    );
    assert_eq!(
        session.good("open('new/sub/a.txt', 'a').write('!')").files,
        changes(&[], &[("new/sub/a.txt", 4)], &[])
    );
    assert_eq!(
        session.good("open('new/b.txt', 'w').write('b')").files,
        changes(&[("new/b.txt", 1)], &[], &[])
    );
}

#[test]
fn a_name_that_begins_like_a_directory_that_is_gone_stays() {
    let session = session();
    session.good(
        "import os, shutil
os.mkdir('a')
open('a/x', 'w').write('1')
open('a-b', 'w').write('2')
open('ab', 'w').write('3')",
    );
    assert_eq!(
        session.good("shutil.rmtree('a')").files,
        changes(&[], &[], &[("a/x", 1)])
    );
}

#[test]
fn a_write_through_a_map_is_seen() {
    let session = session();
    session.good(
        "import mmap
file = open('mapped.bin', 'w+b')
file.write(bytes(8192))
file.flush()
view = mmap.mmap(file.fileno(), 8192)",
    );
    assert_eq!(
        session.good("view[0] = 1\nview.flush()").files,
        changes(&[], &[("mapped.bin", 8192)], &[])
    );
    assert_eq!(
        session.good("view[4096] = 2").files,
        changes(&[], &[("mapped.bin", 8192)], &[])
    );
}

#[test]
fn a_file_that_comes_and_goes_within_a_cell_is_not_told() {
    let session = session();
    assert!(
        session
            .good("import os\nopen('x', 'w').write('x')\nos.remove('x')")
            .files
            .is_empty()
    );
    session.good("open('y', 'w').write('y')");
    let replaced = session
        .good("os.remove('y')\nopen('y', 'w').write('new')")
        .files;
    assert_eq!(replaced, changes(&[], &[("y", 3)], &[]));
}

#[test]
fn a_cell_that_fails_or_dies_tells_what_it_did_to_files() {
    let session = session();
    let failed = session.run("open('a.txt', 'w').write('a')\n1/0");
    assert_eq!(failed.files, changes(&[("a.txt", 1)], &[], &[]));
}

#[test]
fn what_a_child_process_writes_is_the_cells_doing() {
    let session = session();
    let made = session
        .good(
            "import subprocess
subprocess.run('echo hello > from_the_shell.txt', shell=True).returncode",
        )
        .files;
    assert_eq!(made, changes(&[("from_the_shell.txt", 6)], &[], &[]));
}

#[test]
fn thousands_of_files_at_once_are_all_told() {
    let session = session();
    let made = session
        .good(
            "import os
for d in range(50):
    os.mkdir(f'd{d}')
    for f in range(100): open(f'd{d}/f{f}', 'w').close()",
        )
        .files;
    assert_eq!(
        (made.created.len(), made.changed.len(), made.deleted.len()),
        (5000, 0, 0)
    );
    let gone = session
        .good("import shutil\nfor d in range(50): shutil.rmtree(f'd{d}')")
        .files;
    assert_eq!(gone.deleted.len(), 5000);
}
