//! A host that is killed, one that ends, and two at once.

use super::alone;
use super::common::{builder, is_root, new_host, open, run, test_directory, wait, within};
use super::holder::{Holder, bound_to};
use cellblock_protocol::{Isolation, Rung};
use cellblock_session::Cgroups;
use std::time::Duration;
use std::{fs, thread};

/// How long the dead may take to be gone.
const TWO_SECONDS: Duration = Duration::from_secs(2);

fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap()
}

#[test]
fn a_host_that_is_killed_leaves_no_process_and_no_mount() {
    let _alone = alone();
    let before = mounts();
    let mut holder = Holder::start();
    let descendants = holder.descendants();
    assert!(
        descendants.len() >= 3 * 12,
        "{} processes for twelve sessions",
        descendants.len()
    );
    assert_eq!(mounts(), before, "its mounts are seen outside");

    holder.process.0.kill().unwrap();
    holder.process.0.wait().unwrap();
    thread::sleep(TWO_SECONDS);

    let left: Vec<_> = descendants
        .iter()
        .filter(|process| process.is_there())
        .collect();
    assert!(
        left.is_empty(),
        "{left:?} are left of {}",
        descendants.len()
    );
    assert_eq!(bound_to(holder.directory()), Vec::<u32>::new());
    assert_eq!(mounts(), before);
}

#[test]
fn a_host_that_ends_leaves_nothing_at_once() {
    let _alone = alone();
    let mut holder = Holder::start();
    let descendants = holder.descendants();
    drop(holder.process.0.stdin.take());
    assert!(holder.process.0.wait().unwrap().success());
    assert!(within(TWO_SECONDS, || !descendants
        .iter()
        .any(|process| process.is_there())));
}

#[test]
fn cgroups_of_a_host_that_was_killed_are_removed_by_the_next() {
    let _alone = alone();
    let mut holder = Holder::start();
    if Cgroups::detect().is_none() {
        assert!(
            holder.cgroups().is_empty() && !is_root(),
            "root can write cgroups here"
        );
        return;
    }
    assert!(
        !holder.cgroups().is_empty(),
        "the other host has no cgroups"
    );
    holder.process.0.kill().unwrap();
    holder.process.0.wait().unwrap();
    // The next start, of any host, after the processes have ended.
    assert!(
        within(Duration::from_secs(60), || {
            drop(Cgroups::detect());
            holder.cgroups().is_empty()
        }),
        "{:?}",
        holder.cgroups()
    );
}

#[test]
fn two_hosts_do_not_disturb_each_other() {
    let _alone = alone();
    let mine = open(builder().name("default"));
    run(&mine, "import os; x, pid = 'mine', os.getpid()");
    let mut others = [Holder::start(), Holder::start()];
    let [first, second] = &mut others;
    assert!(
        within(TWO_SECONDS, || second.daemons() == 12),
        "{} daemons of twelve",
        second.daemons()
    );
    first.process.0.kill().unwrap();
    first.process.0.wait().unwrap();
    thread::sleep(TWO_SECONDS);

    // A start cleans up after the dead, and only after them.
    let another = open(builder());
    run(&another, "1 + 1");
    wait(another.close());
    assert_eq!(second.daemons(), 12, "they died with another host");
    assert_eq!(
        run(&mine, "import os; (x, pid == os.getpid())")
            .value
            .unwrap()
            .repr,
        "('mine', True)"
    );
    wait(mine.close());
}

#[test]
fn a_session_that_ends_takes_nothing_of_another_along() {
    let _alone = alone();
    // Two Pythons that sessions are made from: one for each kind of walls, and each counts for itself.
    let host = new_host(test_directory());
    let session = |isolation| open(host.session().isolation(isolation));
    let stays = session(Isolation::default());
    let goes = session(Isolation::on(Rung::Landlock));
    assert_ne!(stays.id(), goes.id());
    for session in [&stays, &goes] {
        run(session, "import os; open('a', 'w').write('old')");
        wait(session.checkpoints()).unwrap();
    }
    wait(goes.close());
    let result = run(&stays, "open('a', 'w').write('new'); os.abort()");
    assert_eq!(result.state.not_restored, Vec::<String>::new());
    assert_eq!(fs::read(stays.workspace().join("a")).unwrap(), b"old");
    wait(stays.close());
}
