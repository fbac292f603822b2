//! A disk that fills up while the journal is written.

use crate::scene::Scene;
use crate::support::{builder, eventually, is_root, next_log, open, wait};
use cellblock_host::journal::{Journals, Restore};
use std::path::Path;
use std::process::Command;

fn system(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}: {status}");
}

/// A small file system of its own; gone with the test.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    fn new(path: &Path) -> SmallDisk<'_> {
        let place = path.to_str().unwrap();
        system("mount", &["-t", "tmpfs", "-o", "size=64k", "tmpfs", place]);
        SmallDisk(path)
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l"]).arg(self.0).status();
    }
}

#[test]
fn the_session_goes_on_says_so_once_and_a_restore_says_where_the_journal_ends() {
    if !is_root() {
        return; // Only root mounts; a full device is tried in the unit tests.
    }
    let scene = Scene::new();
    let disk = SmallDisk::new(scene.path());
    let session = open(builder().journal(disk.0));
    let mut logs = session.logs();
    session.good("x = 1");
    session.good("print('y' * 100_000)");
    let told = next_log(&mut logs);
    assert!(told.contains("stopped: writing to"), "{told}");
    assert!(told.contains("No space left on device"), "{told}");
    for number in 0..50 {
        session.good(&format!("x = {number}\nprint('z' * 10_000)"));
    }
    assert_eq!(session.value("x"), "49");
    assert!(logs.try_recv().is_err(), "it was told again");
    wait(session.close());

    let journal = Journals::new(disk.0).find("last").unwrap().read().unwrap();
    let problem = journal.incomplete.clone().unwrap();
    assert!(
        problem.starts_with("it was not written to the end"),
        "{problem}"
    );
    let how = Restore::default().journal(false);
    let restored = wait(how.run(crate::support::host(), &journal)).unwrap();
    assert_eq!(restored.report.replayed, [1]);
    assert_eq!(restored.report.incomplete, Some(problem));
    let x = wait(restored.session.run("x")).unwrap();
    assert_eq!(x.value.unwrap().repr, "1");
}

#[test]
fn a_journal_that_was_cut_by_hand_is_restored_up_to_there() {
    let scene = Scene::new();
    let session = scene.session();
    session.good("x = 1");
    session.good("x = 2");
    let journal = scene.close(session);
    let text = std::fs::read(&journal.path).unwrap();
    let ends: Vec<usize> = (0..text.len()).filter(|at| text[*at] == b'\n').collect();
    std::fs::write(&journal.path, &text[..ends[3] + 20]).unwrap();
    eventually("it is cut", || {
        scene
            .journals()
            .find("last")
            .unwrap()
            .read()
            .unwrap()
            .incomplete
            .is_some()
    });
    let cut = scene.journals().find("last").unwrap().read().unwrap();
    let restored = crate::scene::restore(&cut);
    assert_eq!(
        restored.report.incomplete.as_deref(),
        Some("it is cut off in the middle of line 5")
    );
    let x = wait(restored.session.run("x")).unwrap();
    assert_eq!(x.value.unwrap().repr, "1");
}
