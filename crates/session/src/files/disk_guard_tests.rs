use super::*;
use crate::files::disk::Disk;
use crate::files::found_processes::Processes;
use crate::files::history::{ChangeNotice, FileHistory};
use crate::files::own::Own;
use crate::files::shared_history::SharedHistory;
use crate::files::tracker::Tracker;
use crate::files::watch::Watcher;
use crate::files::workspace::Workspace;
use cellblock_sandbox::ProcEntry;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

const TICK: Duration = Duration::from_millis(10);
const BEFORE: WriteCount = WriteCount {
    bytes: 1000,
    other_processes: 3,
    is_whole: true,
};

fn look(bytes: u64, write_count: WriteCount) -> Look {
    Look {
        added: Added {
            bytes,
            ..Added::default()
        },
        processor: TICK,
        write_count,
        counts_writes: true,
        is_ticking: false,
    }
}

fn written(bytes: u64) -> WriteCount {
    WriteCount { bytes, ..BEFORE }
}

#[test]
fn what_the_processes_did_not_write_was_brought() {
    let found = look(510, written(1020));
    assert_eq!(bytes_brought(&found, 10, &BEFORE, TICK), 480);
    let found = look(510, written(9000));
    assert_eq!(bytes_brought(&found, 10, &BEFORE, TICK), 0);
    let found = look(5, written(9000));
    assert_eq!(bytes_brought(&found, 10, &BEFORE, TICK), 0);
}

#[test]
fn while_processes_come_and_go_everything_may_be_their_work() {
    let write_count = WriteCount {
        other_processes: 4,
        ..BEFORE
    };
    assert_eq!(bytes_brought(&look(510, write_count), 10, &BEFORE, TICK), 0);
}

#[test]
fn where_writes_are_not_counted_a_session_that_ran_may_have_done_it() {
    let found = Look {
        counts_writes: false,
        ..look(510, BEFORE)
    };
    assert_eq!(bytes_brought(&found, 10, &BEFORE, TICK), 500);
    assert_eq!(bytes_brought(&found, 10, &BEFORE, Duration::ZERO), 0);
}

#[test]
fn files_for_which_there_was_no_time_were_brought() {
    assert_eq!(files_brought(100_010, 10, TICK), 100_000);
    assert_eq!(files_brought(100_010, 10, 100 * TICK), 0);
    assert_eq!(files_brought(10, 10, Duration::ZERO), 0);
}

/// A workspace with processes that take the place of a session's: a shell as init, and below it what its script starts.
struct Scene {
    disk: Disk,
    workspace: PathBuf,
    init: Child,
    /// The script runs here. What it writes is not in the workspace, and does not count.
    directory: TempDir,
    _runtime: Runtime,
}

impl Scene {
    fn new(script: &str) -> Scene {
        let runtime = Builder::new_current_thread().build().unwrap();
        let inside = runtime.enter();
        let directory = tempfile::tempdir().unwrap();
        let workspace = Arc::new(Workspace::fresh(directory.path(), "test").unwrap());
        let mut init = Command::new("/bin/sh");
        let init = init.args(["-c", script]).current_dir(directory.path());
        // A shell tells of each process that was killed. All are one group, so that all end with the scene.
        let init = init.stdout(Stdio::null()).stderr(Stdio::null());
        let init = init.process_group(0).spawn().unwrap();
        let path = workspace.path().to_owned();
        let processes = Processes::of_container(Some(init.id()), &path);
        let never = ChangeNotice::Never;
        let store = directory.path().join("store");
        let history = FileHistory::new(Arc::clone(&workspace), store, 0, &BTreeMap::new(), never);
        let tracker = Tracker::new(workspace, &Watcher::new());
        drop(inside);
        Scene {
            disk: Disk::new(tracker, None, processes, SharedHistory::new(history)),
            workspace: path,
            init,
            directory,
            _runtime: runtime,
        }
    }

    fn guard(&mut self, target: WatchTarget, limit: Option<u64>) {
        // The head has ended, and there is no standby: all that is found counts as code.
        let own = Own {
            processes: vec![0],
            ..Own::default()
        };
        self.disk.guard(target, limit, own);
    }

    /// How many processes the script has started: it writes a line for each.
    fn starts(&self) -> usize {
        let lines = fs::read_to_string(self.directory.path().join("starts"));
        lines.unwrap_or_default().lines().count()
    }

    fn is_stopped(&self) -> bool {
        let is_stopped = |pid: u32| {
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.contains(") T ")
        };
        let processes = ProcEntry::of(self.init.id()).children();
        !processes.is_empty() && processes.into_iter().all(is_stopped)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let group = format!("-{}", self.init.id());
        let _ = Command::new("kill").args(["-9", "--", &group]).status();
        let _ = self.init.wait();
    }
}

fn eventually(what: &str, is_true: impl Fn() -> bool) {
    const PATIENCE: Duration = Duration::from_secs(60);
    let begin = Instant::now();
    while !is_true() {
        assert!(begin.elapsed() < PATIENCE, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_a_kill_has_missed_is_killed_again_until_the_sessions_task_takes_over() {
    const LIMIT: u64 = 1 << 20;
    // Each process that is killed is followed by another, as if the list of processes had missed that.
    let mut scene = Scene::new("while true; do echo >>starts; sleep 600; done");
    eventually("a process is there", || scene.starts() == 1);
    scene.guard(WatchTarget::Cell, Some(LIMIT));
    fs::write(scene.workspace.join("large"), vec![1; 2 << 20]).unwrap();
    eventually("killed again and again", || scene.starts() > 20);
    assert_eq!(scene.disk.hit(), Some(LimitHit::Disk { limit: LIMIT }));
    // The session's task is about to wake a standby.
    scene.guard(WatchTarget::None, Some(LIMIT));
    let starts = scene.starts();
    thread::sleep(20 * KILL_PERIOD);
    // The script may have been about to start the next.
    assert!(scene.starts() <= starts + 1, "a new head would be killed");
}

#[test]
fn a_session_that_begins_to_flood_its_workspace_during_a_look_stands_still() {
    /// More than are remembered one by one.
    const FILES: usize = 21_000;
    let mut scene = Scene::new("sleep 600 & sleep 600");
    // Between cells there is no look at names alone, which would take the names of the files in between.
    scene.guard(WatchTarget::LeftBehind, None);
    let meter = scene.disk.meter();
    let held = meter.hold_looks();
    scene.disk.nudge();
    eventually("a look is under way", || meter.is_looking());
    assert!(!scene.is_stopped());
    for number in 0..FILES {
        fs::write(scene.workspace.join(number.to_string()), "").unwrap();
    }
    eventually("the session stands still", || scene.is_stopped());
    drop(held);
    eventually("the session goes on", || !scene.is_stopped());
}
