//! Trees as hostile code builds them.

use super::*;
use rustix::fs::mkdirat;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

const PLENTY: Budget = Budget {
    entries: 100_000,
    text: 64 << 20,
    closed: Closed::Stays,
};

/// What a walk found, and the directories that it left.
fn walked(confined: &Confined, mut budget: Budget) -> (BTreeSet<PathBuf>, Vec<PathBuf>) {
    let (mut found, mut left) = (BTreeSet::new(), Vec::new());
    confined.walk(Path::new(""), &mut budget, &mut |step| match step {
        WalkStep::Finds(path, _) => drop(found.insert(path.to_owned())),
        WalkStep::Leaves(path) => left.push(path.to_owned()),
        WalkStep::Enters(..) => {}
    });
    (found, left)
}

/// Deeper than any path; `branch` is made beside each directory on the way.
fn dig(top: &Path, depth: usize, branch: Option<&str>) {
    let mode = Mode::from_raw_mode(0o755);
    let mut here = openat(rustix::fs::CWD, top, LIST, Mode::empty()).unwrap();
    for _ in 0..depth {
        for name in ["d"].into_iter().chain(branch) {
            mkdirat(&here, name, mode).unwrap();
        }
        here = openat(&here, "d", LIST, Mode::empty()).unwrap();
    }
}

#[test]
fn everything_is_found_and_no_link_is_followed() {
    let host = tempfile::tempdir().unwrap();
    let top = host.path().join("workspace");
    fs::create_dir_all(top.join("a/b")).unwrap();
    fs::write(top.join("a/b/file"), "x").unwrap();
    fs::write(host.path().join("outside"), "x").unwrap();
    symlink(host.path(), top.join("link")).unwrap();
    let confined = Confined::open(&top).unwrap();
    let expected = ["a", "a/b", "a/b/file", "link"].map(PathBuf::from);
    assert_eq!(walked(&confined, PLENTY), (expected.into(), vec![]));
}

#[test]
fn what_is_beyond_the_budget_is_told() {
    let host = tempfile::tempdir().unwrap();
    for name in ["1", "2", "3"] {
        fs::write(host.path().join(name), "").unwrap();
    }
    let confined = Confined::open(host.path()).unwrap();
    let few = Budget {
        entries: 2,
        ..PLENTY
    };
    let short = Budget { text: 2, ..PLENTY };
    for budget in [few, short] {
        let (found, left) = walked(&confined, budget);
        assert_eq!((found.len(), left), (2, vec![PathBuf::new()]));
    }
}

#[test]
fn a_shaft_is_followed_as_far_as_a_path_reaches_and_can_be_removed() {
    let host = tempfile::tempdir().unwrap();
    dig(host.path(), 3000, None);
    fs::create_dir(host.path().join("beside")).unwrap();
    let confined = Confined::open(host.path()).unwrap();
    let (found, left) = walked(&confined, PLENTY);
    let deepest = "d/".repeat(2048);
    let deepest = Path::new(deepest.trim_end_matches('/'));
    assert_eq!((found.len(), left), (2049, vec![deepest.to_owned()]));
    confined.remove_tree(Path::new("d")).unwrap();
    assert_eq!(walked(&confined, PLENTY).0, ["beside".into()].into());
}

#[test]
fn a_tree_with_branches_everywhere_keeps_few_directories_open() {
    let host = tempfile::tempdir().unwrap();
    dig(host.path(), 1000, Some("e"));
    let confined = Confined::open(host.path()).unwrap();
    assert_eq!(walked(&confined, PLENTY).1.len(), 1);
    confined.remove_tree(Path::new("d")).unwrap();
}

#[test]
fn a_directory_that_is_closed_to_its_owner_is_opened_on_demand() {
    use std::os::unix::fs::PermissionsExt as _;
    let host = tempfile::tempdir().unwrap();
    let closed = host.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("file"), "").unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let confined = Confined::open(host.path()).unwrap();
    let opening = Budget {
        closed: Closed::IsOpened,
        ..PLENTY
    };
    assert_eq!(walked(&confined, opening).0.len(), 2);
}
