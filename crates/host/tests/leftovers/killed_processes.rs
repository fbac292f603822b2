//! Processes of ours that someone on the host kills: each session says so, and the next one starts.

use super::alone;
use super::common::{
    Process, behind, builder, descendants, in_process_namespace, new_directory, new_host, open,
    process, process_namespace, run, run_if_alive, wait, within,
};
use cellblock_host::Host;
use cellblock_protocol::{Cell, Isolation, Limits, StateOutcome, Status};
use cellblock_session::Session;
use serde_json::Map;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

fn kill(pid: u32) {
    let killed = Command::new("/bin/sh")
        .args(["-c", &format!("kill -9 {pid}")])
        .status()
        .unwrap();
    assert!(killed.success());
}

/// The launcher of a host that was just started, and the zygote below it. Other hosts of this process have theirs.
fn launcher_and_zygote(before: &[u32]) -> (u32, u32) {
    let children = descendants(std::process::id());
    let ours: Vec<_> = children
        .iter()
        .filter(|process| !before.contains(&process.pid))
        .collect();
    let launcher = ours
        .iter()
        .find(|process| process.parent == std::process::id())
        .unwrap()
        .pid;
    let is_zygote = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains("zygote.main"))
    };
    let zygote = ours
        .iter()
        .map(|process| process.pid)
        .find(is_zygote)
        .unwrap();
    (launcher, zygote)
}

/// A host of its own with a first session, and its launcher and zygote. Its files are gone with the directory.
fn started() -> (TempDir, Host, Session, (u32, u32)) {
    let directory = new_directory();
    let host = new_host(directory.path());
    let before: Vec<u32> = descendants(std::process::id())
        .into_iter()
        .map(|process| process.pid)
        .collect();
    let session = start(&host);
    let ours = launcher_and_zygote(&before);
    (directory, host, session, ours)
}

fn start(host: &Host) -> Session {
    wait(host.session().start()).unwrap()
}

/// Process 1 of a session, and the name of its process namespace.
fn init_of(session: &Session) -> (u32, String) {
    let code = "import os; print(os.readlink('/proc/self/ns/pid'), end='')";
    let namespace = run(session, code).stdout;
    let inside = in_process_namespace(&namespace);
    let numbers: Vec<u32> = inside.iter().map(|process| process.pid).collect();
    let is_init = |process: &&Process| !numbers.contains(&process.parent);
    (inside.iter().find(is_init).unwrap().pid, namespace)
}

#[test]
fn a_launcher_that_is_killed_takes_its_sessions_along_and_the_next_session_has_a_new_one() {
    let _alone = alone();
    let (_directory, host, session, (launcher, _)) = started();
    let processes = descendants(launcher);
    assert!(processes.len() >= 3);
    kill(launcher);
    assert!(within(Duration::from_secs(2), || processes.iter().all(
        |process| super::common::process(process.pid).is_none_or(|found| found.state == 'Z')
    )));
    let after = wait(session.run(Cell::new("1 + 1").timeout(Duration::from_secs(5))));
    assert!(
        after.as_ref().is_err_and(|error| error.code() == "ended")
            || after
                .as_ref()
                .is_ok_and(|result| result.status == Status::Crashed),
        "{after:?}"
    );
    let next = wait(host.session().start())
        .or_else(|_| wait(host.session().start()))
        .unwrap();
    assert_eq!(run(&next, "1 + 1").value.unwrap().repr, "2");
    wait(next.close());
}

#[test]
fn a_zygote_that_is_killed_takes_no_session_along() {
    let _alone = alone();
    let (_directory, host, session, (_, zygote)) = started();
    run(&session, "x = 'kept'");
    kill(zygote);
    assert_eq!(run(&session, "x").value.unwrap().repr, "'kept'");
    let next = start(&host);
    assert_eq!(run(&next, "1 + 1").value.unwrap().repr, "2");
    assert_eq!(run(&session, "x").value.unwrap().repr, "'kept'");
    wait(session.close());
    wait(next.close());
}

/// The processes of the session that a zygote has ready for the next request: init, then the head.
fn prespawned(zygote: u32, born: &[&Session]) -> (u32, u32) {
    let namespace = "import os; print(os.readlink('/proc/self/ns/pid'), end='')";
    let mut known: Vec<String> = born
        .iter()
        .map(|session| run(session, namespace).stdout)
        .collect();
    known.push(process_namespace(zygote).unwrap());
    let found = || {
        let beside = descendants(process(zygote).unwrap().parent);
        let is_strange = |process: &&Process| {
            process_namespace(process.pid).is_ok_and(|own| !known.contains(&own))
        };
        let strange: Vec<_> = beside.iter().filter(is_strange).collect();
        let child = |init: u32| strange.iter().find(|process| process.parent == init);
        strange
            .iter()
            .find_map(|init| Some((init.pid, child(init.pid)?.pid)))
    };
    assert!(within(Duration::from_secs(5), || found().is_some()));
    found().unwrap()
}

#[test]
fn the_processes_of_the_next_session_are_made_ahead_and_made_again_when_they_are_killed() {
    let _alone = alone();
    let (_directory, host, first, (_, zygote)) = started();
    let (init, head) = prespawned(zygote, &[&first]);
    // The host must see the end of the zygote at the end of its socket, so nobody else may have that.
    let control = std::fs::read_link(format!("/proc/{zygote}/fd/4")).ok();
    for pid in [init, head] {
        let held = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten();
        let mut held = held.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        assert!(control.is_none() || held.all(|file| Some(file) != control));
    }
    let second = start(&host);
    assert_eq!(
        process_namespace(head).unwrap(),
        run(&second, "import os; os.readlink('/proc/self/ns/pid')")
            .value
            .unwrap()
            .repr
            .trim_matches('\'')
    );
    assert!(process(init).is_some());
    // It was copied when the zygote had served another session: nothing of that one's request is to be found.
    let frames = r"
import sys
frame, found = sys._getframe(), []
while frame:
    if frame.f_code.co_filename.endswith('zygote.py'):
        found += [name for name, value in frame.f_locals.items() if isinstance(value, (bytes, tuple))]
    frame = frame.f_back
found";
    assert_eq!(run(&second, frames).value.unwrap().repr, "[]");
    for of_init in [false, true] {
        let (init, head) = prespawned(zygote, &[&first, &second]);
        kill(if of_init { init } else { head });
        assert!(within(Duration::from_secs(2), || process(init).is_none()));
        let next = start(&host);
        assert_eq!(run(&next, "1 + 1").value.unwrap().repr, "2");
        wait(next.close());
    }
    wait(first.close());
    wait(second.close());
    // With nobody to be born for, they end with the zygote.
    let (init, head) = prespawned(zygote, &[]);
    kill(zygote);
    assert!(within(Duration::from_secs(2), || {
        process(init).is_none() && process(head).is_none()
    }));
}

#[test]
fn the_files_of_cells_that_were_kept_stay_when_init_is_killed() {
    let _alone = alone();
    let (_directory, _host, session, _) = started();
    run(&session, "open('report', 'w').write('kept')");
    let (init, _) = init_of(&session);
    let path = session.workspace().join("report");
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        kill(init);
    });
    let result = run_if_alive(&session, "import time; time.sleep(20)");
    killer.join().unwrap();
    assert!(result.is_none_or(|result| result.state.outcome == StateOutcome::Ended));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "kept");
}

#[test]
fn an_init_that_is_killed_takes_its_session_along_and_no_other() {
    let _alone = alone();
    let beside = open(builder());
    run(&beside, "x = 'kept'");
    let session = behind(Isolation::default(), Limits::default(), &Map::new());
    let (init, namespace) = init_of(&session);
    kill(init);
    assert!(within(Duration::from_secs(2), || {
        in_process_namespace(&namespace).is_empty()
    }));
    let after = run_if_alive(&session, "1 + 1");
    assert!(after.is_none_or(|result| result.status == Status::Crashed));
    assert_eq!(run(&beside, "x").value.unwrap().repr, "'kept'");
    wait(beside.close());
}
