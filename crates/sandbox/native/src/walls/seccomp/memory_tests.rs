//! The filter's rules about memory of the kernel and about what the kernel counts for each user.

use super::tests::Verdict::{Allowed, Asked, Refused};
use super::tests::{BARE, SEALED, decide};
use super::{KernelMemory, Rules, UserObjects};
use crate::sys::nr;

#[test]
fn memory_that_init_cannot_see_is_not_given_out_where_init_counts() {
    let both = |number, arguments| [SEALED, BARE].map(|rules| decide(rules, number, arguments));
    for number in [nr::MEMFD_CREATE, nr::VMSPLICE, nr::SPLICE, nr::SENDFILE] {
        assert_eq!(both(number, [0; 6]), [Refused(38), Allowed]);
    }
    let process = |option| both(nr::PRCTL, [option, 0, 0, 0, 0, 0]);
    assert_eq!(
        [process(78), process(15)],
        [[Refused(22), Allowed], [Allowed; 2]]
    );
    let lock = |command| both(nr::FCNTL, [3, command, 0, 0, 0, 0]);
    let [of_process, of_open_file, lease] = [6, 37, 1024];
    assert_eq!(
        [lock(of_process), lock(of_open_file), lock(lease)],
        [[Allowed; 2], [Refused(22), Allowed], [Refused(22); 2]]
    );
    let option = |level, name| both(nr::SETSOCKOPT, [3, level, name, 0, 0, 0]);
    let [send_buffer, receive_buffer, reuse_address] = [7, 8, 2];
    assert_eq!(
        [
            option(1, send_buffer),
            option(1, receive_buffer),
            option(1, reuse_address),
            option(6, send_buffer)
        ],
        [
            [Refused(0), Allowed],
            [Refused(0); 2],
            [Allowed; 2],
            [Allowed; 2]
        ]
    );
}

#[test]
fn a_mapping_is_not_filled_at_once_where_init_counts() {
    let both = |number, arguments| [SEALED, BARE].map(|rules| decide(rules, number, arguments));
    let mapped = |flags| both(nr::MMAP, [0, 4096, 3, flags, 0, 0]);
    let [private_anonymous, and_populated] = [0x22, 0x8022];
    assert_eq!(
        [mapped(private_anonymous), mapped(and_populated)],
        [[Allowed; 2], [Refused(95), Allowed]]
    );
    let [shared_anonymous, shared_file] = [0x21, 0x01];
    assert_eq!(
        [mapped(shared_anonymous), mapped(shared_file)],
        [[Asked, Allowed], [Allowed; 2]]
    );
    let advised = |advice| both(nr::MADVISE, [0, 4096, advice, 0, 0, 0]);
    let [huge_pages, populate_read, populate_write] = [14, 22, 23];
    assert_eq!(
        [
            advised(huge_pages),
            advised(populate_read),
            advised(populate_write)
        ],
        [[Allowed; 2], [Refused(22), Allowed], [Refused(22), Allowed]]
    );
}

#[test]
fn memory_that_no_cgroup_counts_is_not_given_out() {
    let both = |number, arguments| [SEALED, BARE].map(|rules| decide(rules, number, arguments));
    assert_eq!(both(nr::IO_SETUP, [0; 6]), [Refused(38); 2]);
    assert_eq!(both(nr::SETXATTRAT, [0; 6]), [Refused(38); 2]);
    for number in [nr::SETXATTR, nr::LSETXATTR, nr::FSETXATTR] {
        let of = |bytes| both(number, [0, 0, 0, bytes, 0, 0]);
        assert_eq!([of(512), of(513)], [[Allowed, Asked], [Refused(28); 2]]);
    }
    let program = 26;
    assert_eq!(
        both(nr::SETSOCKOPT, [3, 1, program, 0, 0, 0]),
        [Refused(1); 2]
    );
}

#[test]
fn init_is_asked_before_a_netlink_socket_is_made() {
    const WITH_CGROUP: Rules = Rules {
        memory: KernelMemory::CountedByCgroup,
        objects: UserObjects::Free,
        ..SEALED
    };
    let netlink = |rules, protocol| decide(rules, nr::SOCKET, [16, 3, protocol, 0, 0, 0]);
    let [routes, between_processes] = [0, 2];
    for rules in [SEALED, WITH_CGROUP] {
        assert_eq!(
            [netlink(rules, routes), netlink(rules, between_processes)],
            [Asked, Refused(93)]
        );
    }
    assert_eq!(netlink(BARE, routes), Refused(13));
}

#[test]
fn init_is_notified_of_listeners_where_a_cgroup_counts_memory() {
    let counted_by = |memory| Rules { memory, ..SEALED };
    let rules = [
        counted_by(KernelMemory::CountedByCgroup),
        counted_by(KernelMemory::CountedByInit),
        BARE,
    ];
    let verdicts = rules.map(|rules| decide(rules, nr::LISTEN, [0; 6]));
    assert_eq!(verdicts, [Asked, Allowed, Allowed]);
}

#[test]
fn init_is_asked_before_something_is_made_that_is_counted_for_each_user() {
    let both = |number, arguments| [SEALED, BARE].map(|rules| decide(rules, number, arguments));
    for number in [nr::PIPE, nr::PIPE2, nr::EPOLL_CREATE, nr::EPOLL_CREATE1] {
        assert_eq!(both(number, [0; 6]), [Asked, Allowed]);
    }
    // Where the host's files are in sight, their names must not be overheard.
    for number in [nr::INOTIFY_INIT, nr::INOTIFY_INIT1] {
        assert_eq!(both(number, [0; 6]), [Asked, Refused(38)]);
    }
    let made = |mode| both(nr::MKNODAT, [0, 0, mode, 0, 0, 0]);
    assert_eq!(
        [made(0o010_644), made(0o100_644), made(0o014_644)],
        [[Asked, Allowed], [Allowed; 2], [Refused(1); 2]]
    );
    let size = |bytes| both(nr::FCNTL, [3, 1031, bytes, 0, 0, 0]);
    assert_eq!(
        [size(64 << 10), size((64 << 10) + 1)],
        [[Allowed; 2], [Refused(1), Allowed]]
    );
    let rule = |kind| both(nr::LANDLOCK_ADD_RULE, [3, kind, 0, 0, 0, 0]);
    let [path, port] = [1, 2];
    assert_eq!(
        [rule(path), rule(port)],
        [[Asked, Allowed], [Refused(95), Allowed]]
    );
}

#[test]
fn no_page_of_the_pool_of_huge_pages_is_given_out() {
    let both = |number, arguments| [SEALED, BARE].map(|rules| decide(rules, number, arguments));
    let huge = 0x4_0000;
    for flags in [huge | 0x22, huge | 0x21, huge | 0x8022] {
        assert_eq!(
            both(nr::MMAP, [0, 2 << 20, 3, flags, 0, 0]),
            [Refused(12); 2]
        );
    }
    assert_eq!(both(nr::MEMFD_CREATE, [0, 4, 0, 0, 0, 0]), [Refused(12); 2]);
    assert_eq!(
        both(nr::SHMGET, [0, 2 << 20, 0o4600, 0, 0, 0]),
        [Refused(12); 2]
    );
    assert_eq!(
        both(nr::SHMGET, [0, 2 << 20, 0o600, 0, 0, 0]),
        [Allowed, Refused(1)]
    );
}
