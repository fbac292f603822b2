//! Sessions and their forks, closed in any order: nothing of them is left.

use super::alone;
use super::common::{descendants, new_directory, new_host, run, wait, within};
use cellblock::{Host, Session};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Processes below this one, mounts, cgroups, and directories of sessions.
fn counts(directory: &Path) -> [usize; 4] {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let sessions = fs::read_dir(directory.join("state/sessions")).map_or(0, Iterator::count);
    let processes = descendants(std::process::id()).len();
    [
        processes,
        mounts.lines().count(),
        cgroups(Path::new("/sys/fs/cgroup")),
        sessions,
    ]
}

/// The cgroups of this process's sessions.
fn cgroups(directory: &Path) -> usize {
    let mark = format!("cellblock-{}-", std::process::id());
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories
        .map(|entry| {
            usize::from(entry.path().to_string_lossy().contains(&mark)) + cgroups(&entry.path())
        })
        .sum()
}

fn session(host: &Host) -> Session {
    wait(Session::builder().host(host).start()).unwrap()
}

#[test]
fn nothing_is_left_of_sessions_and_forks_that_were_closed() {
    let _alone = alone();
    let directory = new_directory();
    // Other tests may have left a host that all of them use.
    let others = descendants(std::process::id()).len();
    let host = new_host(directory.path());
    // What the first session makes for good: the launcher's two processes, and the zygote.
    wait(session(&host).close());
    let is_settled =
        || counts(directory.path())[3] == 0 && descendants(std::process::id()).len() <= others + 3;
    assert!(within(Duration::from_secs(10), is_settled));
    let before = counts(directory.path());
    for parents_first in [true, false, true] {
        let parent = session(&host);
        run(&parent, "x = 1; open('a', 'w').close()");
        let forks = [wait(parent.fork()).unwrap(), wait(parent.fork()).unwrap()];
        let nested = wait(forks[0].fork()).unwrap();
        run(
            &nested,
            "import subprocess; subprocess.Popen(['/bin/sleep', '600'])",
        );
        let [first, second] = forks;
        let mut all = [parent, first, second, nested];
        if !parents_first {
            all.reverse();
        }
        for session in all {
            assert_eq!(run(&session, "x").value.unwrap().repr, "1");
            wait(session.close());
        }
    }
    let same = within(Duration::from_secs(10), || {
        counts(directory.path()) == before
    });
    assert!(
        same,
        "{:?}, and before {before:?}",
        counts(directory.path())
    );
}

#[test]
fn a_fork_that_is_refused_leaves_nothing() {
    let _alone = alone();
    let directory = new_directory();
    let host = new_host(directory.path());
    let parent = session(&host);
    run(
        &parent,
        "import threading; thread = threading.Thread(target=threading.Event().wait, daemon=True); thread.start(); open('a', 'w').close()",
    );
    let workspaces =
        || fs::read_dir(directory.path().join("state/workspaces")).map_or(0, Iterator::count);
    let before = (counts(directory.path()), workspaces());
    for _ in 0..3 {
        assert_eq!(wait(parent.fork()).unwrap_err().code(), "refused");
    }
    let same = within(Duration::from_secs(10), || {
        (counts(directory.path()), workspaces()) == before
    });
    assert!(
        same,
        "{:?}, {}, and before {before:?}",
        counts(directory.path()),
        workspaces()
    );
}
