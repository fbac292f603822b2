//! The filter's rules about how a file is opened, and about requests to file systems.

use super::tests::Verdict::{Allowed, Refused};
use super::tests::{BARE, SEALED, decide};
use crate::sys::nr;

#[test]
fn a_file_is_not_opened_for_nothing() {
    let both = |number, arguments| [SEALED, BARE].map(|rules| decide(rules, number, arguments));
    let [read, write, read_and_write, neither] = [0, 1, 2, 3];
    let create = 0o100;
    for flags in [neither, neither | create] {
        assert_eq!(
            both(nr::OPENAT, [0, 0, flags, 0o644, 0, 0]),
            [Refused(22); 2]
        );
        assert_eq!(both(nr::OPEN, [0, flags, 0o644, 0, 0, 0]), [Refused(22); 2]);
    }
    for flags in [read, write, read_and_write, write | create] {
        assert_eq!(both(nr::OPENAT, [0, 0, flags, 0, 0, 0]), [Allowed; 2]);
        assert_eq!(both(nr::OPEN, [0, flags, 0, 0, 0, 0]), [Allowed; 2]);
    }
}

#[test]
fn no_snapshot_is_taken_of_files_beside_the_workspace() {
    let asked =
        |request| [SEALED, BARE].map(|rules| decide(rules, nr::IOCTL, [3, request, 0, 0, 0, 0]));
    let [snapshot, snapshot_v2, subvolume] = [0x5000_9401, 0x5000_9417, 0x5000_940E];
    for request in [snapshot, snapshot_v2, subvolume] {
        assert_eq!(asked(request), [Refused(25); 2], "{request:#x}");
    }
    let [clone, clone_range, dedupe] = [0x4004_9409, 0x4020_940D, 0xC018_9436];
    let [read_size, flags_of_file] = [0x541B, 0x8008_6601];
    for request in [clone, clone_range, dedupe, read_size, flags_of_file] {
        assert_eq!(asked(request), [Allowed; 2], "{request:#x}");
    }
}
