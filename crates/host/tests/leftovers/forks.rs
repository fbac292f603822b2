//! Sessions and their forks, closed in any order: nothing of them is left.

use super::alone;
use super::common::{descendants, new_directory, new_host, process, run, wait, within};
use cellblock_host::Host;
use cellblock_session::Session;
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

fn pids() -> Vec<u32> {
    let all = descendants(std::process::id()).into_iter();
    all.map(|process| process.pid).collect()
}

fn session(host: &Host) -> Session {
    wait(host.session().start()).unwrap()
}

#[test]
fn nothing_is_left_of_sessions_and_forks_that_were_closed() {
    let _alone = alone();
    let directory = new_directory();
    let host = new_host(directory.path());
    let before_all: Vec<u32> = pids();
    // What the first session makes for good: the launcher's two processes, the zygote, and two that wait for the next session. Other
    // tests may have left a host that all of them use, and what is below it.
    wait(session(&host).close());
    let ours = || {
        pids()
            .iter()
            .filter(|pid| !before_all.contains(pid))
            .count()
    };
    let is_settled = || counts(directory.path())[3] == 0 && ours() == 5;
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
    // A thread that cannot be stopped cannot be carried along.
    let code = r"
import ctypes, threading
deaf = threading.Event()
def wait():
    ctypes.CDLL(None).syscall(14, 0, ctypes.byref(ctypes.c_uint64(-1)), None, 8)
    deaf.set()
    threading.Event().wait()
threading.Thread(target=wait, daemon=True).start()
deaf.wait()
open('a', 'w').close()
";
    run(&parent, code);
    let workspaces =
        || fs::read_dir(directory.path().join("state/workspaces")).map_or(0, Iterator::count);
    // The processes of the next session come by themselves.
    let settled = || {
        let counted = counts(directory.path());
        std::thread::sleep(Duration::from_millis(100));
        (counted == counts(directory.path())).then_some(counted)
    };
    let counted = std::iter::repeat_with(settled).flatten().next().unwrap();
    let before = (counted, workspaces());
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

/// The init of a session: the parent of its head, which is the parent of what it starts.
fn init_of(session: &Session, mark: &str) -> u32 {
    run(
        session,
        format!("import subprocess; subprocess.Popen(['/bin/sleep', '{mark}'])").as_str(),
    );
    let is_marked = |pid: u32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
    };
    let find = || {
        descendants(std::process::id())
            .into_iter()
            .find(|process| is_marked(process.pid))
    };
    assert!(within(Duration::from_secs(10), || find().is_some()));
    let sleeping = find().unwrap();
    process(sleeping.parent).unwrap().parent
}

fn kill(pid: u32) {
    let killed = std::process::Command::new("/bin/sh")
        .args(["-c", &format!("kill -9 {pid}")])
        .status()
        .unwrap();
    assert!(killed.success());
}

#[test]
fn a_fork_whose_init_is_killed_ends_and_says_so_and_its_parent_goes_on() {
    let _alone = alone();
    let directory = new_directory();
    let host = new_host(directory.path());
    let parent = session(&host);
    run(&parent, "x = 1");
    let fork = wait(parent.fork()).unwrap();
    let nested = wait(fork.fork()).unwrap();
    kill(init_of(&fork, "86411"));
    for gone in [&fork, &nested] {
        let ended = within(Duration::from_secs(10), || {
            wait(gone.run("1")).is_err_and(|error| error.code() == "ended")
        });
        assert!(ended);
    }
    assert_eq!(run(&parent, "x").value.unwrap().repr, "1");
    assert_eq!(
        run(&wait(parent.fork()).unwrap(), "x").value.unwrap().repr,
        "1"
    );
}

#[test]
fn forks_end_with_the_init_of_the_session_they_came_from() {
    let _alone = alone();
    let directory = new_directory();
    let host = new_host(directory.path());
    let parent = session(&host);
    let fork = wait(parent.fork()).unwrap();
    kill(init_of(&parent, "86412"));
    for gone in [&parent, &fork] {
        let ended = within(Duration::from_secs(10), || {
            wait(gone.run("1")).is_err_and(|error| error.code() == "ended")
        });
        assert!(ended);
    }
    assert_eq!(run(&session(&host), "1 + 1").value.unwrap().repr, "2");
}

#[test]
fn fifty_forks_one_after_the_other_leave_nothing() {
    let _alone = alone();
    let directory = new_directory();
    let host = new_host(directory.path());
    let parent = session(&host);
    run(&parent, "x = 0");
    wait(wait(parent.fork()).unwrap().close());
    // Its checkpoint is a process too.
    wait(parent.checkpoints()).unwrap();
    assert!(within(Duration::from_secs(10), || counts(directory.path())
        [3]
        == 1));
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = (counts(directory.path()), descriptors());
    for n in 0..50 {
        let fork = wait(parent.fork()).unwrap();
        let value = run(&fork, format!("x += {n}; x").as_str()).value.unwrap();
        assert_eq!(value.repr, n.to_string());
        wait(fork.close());
    }
    let same = within(Duration::from_secs(20), || {
        let (now, open) = (counts(directory.path()), descriptors());
        let fewer = now.iter().zip(before.0).all(|(now, before)| *now <= before);
        fewer && open <= before.1 + 2
    });
    assert!(
        same,
        "{:?} {}, and before {before:?}",
        counts(directory.path()),
        descriptors()
    );
}
