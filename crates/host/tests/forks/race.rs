//! Code that changes what a call names between init's look and the kernel's reaches no file of another session.

use crate::support::{Python, session, wait};
use cellblock_protocol::Cell;
use std::time::{Duration, Instant};

const ATTACKS: &str = include_str!("race.py");
/// Enough that they are shared, and that there is a new one to try whenever the last one has become the fork's own.
const MAKE: &str = "import os\nnames = [f'/workspace/s{n:04}' for n in range(1500)]\nfor name in names:\n    with open(name, 'w') as file: file.write('old')\n    os.utime(name, (1000, 1000))\nnames = [name.encode() for name in names]";
/// How often the host writes at least, however busy the machine is.
const MIN_WRITES: usize = 51;
const CHANGED: &str = "[name for name in names if open(name).read() != 'old' or os.stat(name).st_mode != 0o100644 or os.stat(name).st_mtime != 1000 or os.listxattr(name)]";

fn survives(attack: &str) {
    let parent = session();
    parent.good(MAKE);
    let fork = parent.fork();
    fork.good(ATTACKS);
    fork.good("with open('/workspace/mine_', 'w') as file: file.write('own')\nos.rename('/workspace/mine_', '/workspace/m0000')");
    let rounds = fork.value(attack);
    assert!(rounds.parse::<u64>().unwrap() > 50, "{rounds} rounds");
    // Also through the host: nobody has a reason to look at the files before.
    let look = |session: &Python| session.value(CHANGED);
    assert_eq!(look(&parent), "[]", "after {rounds} rounds");
}

#[test]
fn a_path_that_changes_in_memory_reaches_no_file_of_the_parent_s() {
    survives("path_in_memory(names, b'/workspace/m0000')");
}

#[test]
fn a_link_that_another_process_changes_reaches_no_file_of_the_parent_s() {
    survives("link_by_another_process([os.fsdecode(name) for name in names], '/workspace/m0000')");
}

#[test]
fn a_descriptor_that_another_thread_changes_reaches_no_file_of_the_parent_s() {
    survives("descriptor_in_a_table(names, b'/workspace/m0000')");
}

#[test]
fn a_path_of_a_descriptor_reaches_no_file_of_the_parent_s() {
    survives("path_of_a_descriptor(names, b'/workspace/m0000')");
}

/// The host writes to a file of a fork while code there exchanges it for one that is the parent's too.
fn survives_the_host(write: impl Fn(&Python, usize)) {
    let parent = session();
    parent.good(MAKE);
    let fork = parent.fork();
    fork.good(ATTACKS);
    fork.good("with open('/workspace/m0000', 'w') as file: file.write('own')");
    let attack = "names_that_change_places(names, b'/workspace/m0000', 6)";
    let running = fork.start(Cell::new(attack).timeout(Duration::from_secs(60)));
    let end = Instant::now() + Duration::from_secs(6);
    let mut writes = 0;
    while writes < MIN_WRITES || Instant::now() < end {
        write(&fork, writes);
        writes += 1;
    }
    let rounds = running.result().value.unwrap().repr;
    // Each exchange waits until the host has looked at all files beside.
    assert!(rounds.parse::<u64>().unwrap() > 10, "{rounds} rounds");
    assert_eq!(parent.value(CHANGED), "[]", "after {writes} writes");
}

#[test]
fn the_host_writes_to_no_file_of_the_parent_s_when_names_change_places() {
    survives_the_host(|fork, number| {
        let _ = wait(fork.put_file("m0000", format!("new {number}").into_bytes()));
    });
}

#[test]
fn the_host_writes_through_a_link_to_no_file_of_the_parent_s_when_names_change_places() {
    survives_the_host(|fork, number| {
        let link = fork.workspace().join("link");
        let _ = std::os::unix::fs::symlink("m0000", link);
        let _ = wait(fork.put_file("link", format!("new {number}").into_bytes()));
    });
}
