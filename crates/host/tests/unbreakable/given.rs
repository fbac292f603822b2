//! A directory of the user's, as large as it likes: what was in it is put back although nobody copied it beforehand.

use crate::support::{Python, builder, open, wait};
use cellblock_protocol::{CheckpointStatus, Isolation, Limits, Rung, StateOutcome};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const DIE: &str = "import os; os.kill(os.getpid(), 9)";

fn given() -> TempDir {
    given_with(100)
}

fn given_with(many: usize) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    fs::create_dir_all(place("many/deep/er")).unwrap();
    fs::create_dir(place("empty")).unwrap();
    for number in 0..many {
        fs::write(place(&format!("many/{number}")), number.to_string()).unwrap();
    }
    for name in ["a", "b", "c", "many/deep/er/x"] {
        fs::write(place(name), format!("this is {name}\n")).unwrap();
        fs::set_permissions(place(name), fs::Permissions::from_mode(0o640)).unwrap();
    }
    symlink("a", place("link")).unwrap();
    fs::hard_link(place("b"), place("b2")).unwrap();
    let old = SystemTime::now() - Duration::from_secs(1000);
    fs::File::open(place("a"))
        .unwrap()
        .set_modified(old)
        .unwrap();
    directory
}

/// Everything that a user sees of a directory.
fn all_of(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            let stat = fs::symlink_metadata(&path).unwrap();
            let (mode, modified) = (stat.mode(), stat.modified().unwrap());
            let what = if stat.is_dir() {
                open.push(path.clone());
                format!("directory {mode:o}")
            } else if stat.is_symlink() {
                format!("link to {:?}", fs::read_link(&path).unwrap())
            } else {
                format!(
                    "{mode:o} {modified:?} {}",
                    fs::read_to_string(&path).unwrap()
                )
            };
            found.insert(path.strip_prefix(directory).unwrap().to_owned(), what);
        }
    }
    found
}

fn in_given(directory: &TempDir) -> Python {
    open(builder().workspace(directory.path()))
}

/// Every way to change what is there.
const CHANGES: [&str; 18] = [
    "open('a', 'w').write('new')",
    "open('a', 'a').write('more')",
    "open('/workspace/a', 'r+').write('T')",
    "import os; os.truncate('a', 1)",
    "import os; os.remove('a')",
    "import os; os.remove('a'); open('a', 'w').write('another')",
    "import os; os.rename('a', 'z')",
    "import os; os.rename('a', 'c')",
    "import os; os.rename('a', 'z'); open('z', 'w').write('moved and changed')",
    "import os; os.chmod('a', 0o600)",
    "import os; os.utime('a'); open('a', 'w').write('touched before')",
    "import os; os.link('a', 'second'); open('second', 'w').write('by another name')",
    "open('link', 'w').write('through a link')",
    "import os; os.remove('link'); os.symlink('b', 'link')",
    "open('b2', 'w').write('both names')",
    "import subprocess; subprocess.run(['sed', '-i', 's/this/that/', 'a', 'c', 'many/7'], check=True)",
    "import mmap; file = open('a', 'r+b'); m = mmap.mmap(file.fileno(), 0); m[0:4] = b'THAT'; m.flush()",
    "import os; os.chdir('many/deep'); open('er/x', 'w').write('from here'); os.chdir('/workspace')",
];

#[test]
fn every_change_is_put_back_after_a_crash() {
    // More files than anyone would copy when a session begins.
    let directory = given_with(2500);
    let before = all_of(directory.path());
    let session = in_given(&directory);
    for change in CHANGES {
        let result = session.run(format!("{change}\n{DIE}"));
        assert_eq!(
            result.state.outcome,
            StateOutcome::Restored,
            "{change}: {result:?}"
        );
        assert_eq!(result.state.not_restored, Vec::<String>::new(), "{change}");
        assert_eq!(
            differences(&before, directory.path()),
            Vec::<String>::new(),
            "{change}"
        );
    }
}

#[test]
fn every_change_is_taken_back_by_undo() {
    let directory = given();
    let before = all_of(directory.path());
    let session = in_given(&directory);
    for change in CHANGES {
        session.good(change);
        assert_ne!(
            differences(&before, directory.path()),
            Vec::<String>::new(),
            "{change}"
        );
        let undone = wait(session.undo(1)).unwrap();
        assert_eq!(undone.not_restored, Vec::<String>::new(), "{change}");
        assert_eq!(
            differences(&before, directory.path()),
            Vec::<String>::new(),
            "{change}"
        );
    }
    // One after the other, and all at once.
    for change in CHANGES {
        let _ = session.run(change);
    }
    let kept = CHANGES.len().min(8);
    let undone = wait(session.undo(kept)).unwrap();
    assert_eq!(undone.not_restored, Vec::<String>::new());
}

#[test]
fn a_tree_that_was_removed_or_moved_comes_back() {
    let directory = given();
    let before = all_of(directory.path());
    let session = in_given(&directory);
    for change in [
        "import shutil; shutil.rmtree('many')",
        "import os; os.rename('many', 'few')",
        "import os; os.remove('many/1'); os.rename('a', 'many/a'); os.remove('many/a'); os.remove('many/2')",
        "import os; os.rename('many', 'few'); open('few/1', 'w').write('!'); os.mkdir('many'); open('many/1', 'w').write('?')",
        "import os, shutil\nfor name in os.listdir():\n    shutil.rmtree(name) if os.path.isdir(name) else os.remove(name)",
    ] {
        let result = session.run(format!("{change}\n{DIE}"));
        assert_eq!(result.state.not_restored, Vec::<String>::new(), "{change}");
        assert_eq!(
            differences(&before, directory.path()),
            Vec::<String>::new(),
            "{change}"
        );
        session.good(change);
        let undone = wait(session.undo(1)).unwrap();
        assert_eq!(undone.not_restored, Vec::<String>::new(), "{change}");
        assert_eq!(
            differences(&before, directory.path()),
            Vec::<String>::new(),
            "{change}"
        );
    }
}

#[test]
fn an_open_handle_stays_good() {
    let directory = given();
    let session = in_given(&directory);
    session.good("file = open('a')");
    session.run(format!("open('a', 'w').write('new'); {DIE}"));
    assert_eq!(session.value("file.read()"), "'this is a\\n'");
}

#[test]
fn where_there_are_no_namespaces_too() {
    if crate::support::is_root() {
        // Sessions of root's run as someone there who may not write to root's files.
        return;
    }
    let directory = given();
    let before = all_of(directory.path());
    let isolation = Isolation::on(Rung::Landlock);
    let session = open(builder().workspace(directory.path()).isolation(isolation));
    for change in CHANGES {
        let change = change.replace("/workspace", &directory.path().display().to_string());
        let result = session.run(format!("{change}\n{DIE}"));
        assert_eq!(result.state.not_restored, Vec::<String>::new(), "{change}");
        assert_eq!(
            differences(&before, directory.path()),
            Vec::<String>::new(),
            "{change}"
        );
    }
}

#[test]
fn the_user_s_own_edits_win() {
    let directory = given();
    let place = |name: &str| directory.path().join(name);
    let session = in_given(&directory);
    fs::write(place("many/1"), "by the user").unwrap();
    session.good("open('a', 'w').write('by the cell'); open('b', 'w').write('by the cell')");
    fs::write(place("a"), "by the user").unwrap();
    fs::write(place("new"), "by the user").unwrap();
    // What the user does is seen at once.
    assert_eq!(
        session.value("open('a').read(), open('new').read(), open('many/1').read()"),
        "('by the user', 'by the user', 'by the user')"
    );
    let undone = wait(session.undo(2)).unwrap();
    assert_eq!(
        undone.not_restored,
        ["a: it was changed from outside since, and was left alone"]
    );
    let texts = ["a", "b", "new", "many/1"].map(|name| fs::read_to_string(place(name)).unwrap());
    assert_eq!(
        texts,
        ["by the user", "this is b\n", "by the user", "by the user"]
    );
}

#[test]
fn a_large_file_that_the_user_adds_is_put_back_too() {
    let directory = given();
    let large = directory.path().join("large");
    let session = in_given(&directory);
    session.good("x = 1");
    for text in ["first", "second", "third, longer"] {
        // A new one, and then the same one with other contents.
        let contents = text.repeat(1 << 19);
        fs::write(&large, &contents).unwrap();
        session.good(&format!(
            "assert open('large').read({}) == '{text}'",
            text.len()
        ));
        for change in [
            "open('large', 'r+').write('!')",
            "import os; os.remove('large')",
            "import os; os.rename('large', 'moved')",
        ] {
            let result = session.run(format!("{change}; {DIE}"));
            assert_eq!(result.state.not_restored, Vec::<String>::new(), "{change}");
            assert!(fs::read_to_string(&large).unwrap() == contents, "{change}");
            session.good(change);
            let undone = wait(session.undo(1)).unwrap();
            assert_eq!(undone.not_restored, Vec::<String>::new(), "{change}");
            assert!(fs::read_to_string(&large).unwrap() == contents, "{change}");
            assert!(!directory.path().join("moved").exists(), "{change}");
        }
    }
}

#[test]
fn what_is_larger_than_the_disk_limit_is_not_kept_and_that_is_told() {
    let directory = given();
    let place = |name: &str| directory.path().join(name);
    for name in ["changed", "removed"] {
        fs::write(place(name), vec![b'x'; 3 << 20]).unwrap();
    }
    let limits = Limits {
        disk: 2 << 20,
        ..Limits::default()
    };
    let session = open(builder().workspace(directory.path()).limits(limits));
    session.good("x = 1");
    let result = session.run(format!("open('changed', 'r+').write('one'); {DIE}"));
    assert_eq!(
        result.state.not_restored,
        ["changed: it was changed, and no copy from before was kept"]
    );
    assert_eq!(result.state.checkpoint.status, CheckpointStatus::Behind);
    // A cell that lives had no better checkpoint.
    let result = session.good("open('changed', 'r+').write('two')");
    assert_eq!(
        (
            result.state.checkpoint.status,
            result.state.checkpoint.reason.as_deref()
        ),
        (
            CheckpointStatus::Behind,
            Some(
                "not every file could be kept as it was before the cell: changed: the copies would take more than the limit `disk`"
            )
        )
    );
    // Removing costs no copy.
    let result = session.run(format!("import os; os.remove('removed'); {DIE}"));
    assert_eq!(result.state.not_restored, Vec::<String>::new());
    assert_eq!(fs::read(place("removed")).unwrap().len(), 3 << 20);
}

/// What is not as it was.
fn differences(before: &BTreeMap<PathBuf, String>, directory: &Path) -> Vec<String> {
    let now = all_of(directory);
    let paths = before.keys().chain(now.keys());
    let mut found: Vec<String> = paths
        .filter(|path| before.get(*path) != now.get(*path))
        .map(|path| {
            format!(
                "{}: {:?} is {:?}",
                path.display(),
                before.get(path),
                now.get(path)
            )
        })
        .collect();
    found.sort();
    found.dedup();
    found
}
