//! A directory of the user's in which sessions of root's worked that have no namespaces: it is theirs only as long as they work.

use super::alone;
use super::common::{builder, is_root, new_directory, open, run, wait};
use super::holder::Holder;
use cellblock_host::SessionBuilder;
use cellblock_protocol::{Isolation, Rung};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;

fn without_namespaces(given: &Path) -> SessionBuilder {
    builder()
        .workspace(given)
        .isolation(Isolation::on(Rung::Landlock))
}

fn owner(path: &Path) -> (u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.gid())
}

#[test]
fn it_is_given_back_when_the_last_of_them_is_closed() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let given = new_directory();
    fs::write(given.path().join("mine"), "").unwrap();
    chown(given.path(), Some(4711), Some(4712)).unwrap();
    let sessions = [(); 2].map(|()| open(without_namespaces(given.path())));
    for session in &sessions {
        let result = run(
            session,
            "import os; os.makedirs('d', exist_ok=True); open('d/made', 'a').close(); os.symlink('x', f'link{os.getpid()}')",
        );
        assert_eq!(result.error, None);
    }
    let [first, second] = sessions;
    wait(first.close());
    assert_ne!(owner(given.path()), (4711, 4712), "one still works in it");
    wait(second.close());
    let entries = fs::read_dir(given.path()).unwrap().flatten();
    let others = entries.filter(|entry| entry.file_name() != "mine");
    for path in others
        .map(|entry| entry.path())
        .chain([given.path().to_owned(), given.path().join("d/made")])
    {
        assert_eq!(owner(&path), (4711, 4712), "{}", path.display());
    }
    assert_eq!(owner(&given.path().join("mine")), (0, 0));
}

#[test]
fn it_is_given_back_by_the_next_host_when_theirs_was_killed() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let mut holder = Holder::start();
    let given = holder.borrowed();
    assert_ne!(owner(&given), (0, 0));
    holder.process.0.kill().unwrap();
    holder.process.0.wait().unwrap();
    // Any later start of one that has no namespaces.
    let elsewhere = new_directory();
    let host = super::common::new_host(elsewhere.path());
    let builder = host.session().isolation(Isolation::on(Rung::Landlock));
    wait(open(builder).close());
    assert_eq!(owner(&given), (0, 0));
    assert_eq!(owner(&given.join("made")), (0, 0));
}
