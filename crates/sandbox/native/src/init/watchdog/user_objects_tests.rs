//! What one session may have of objects that the kernel counts for each user.

use super::*;
use std::os::fd::AsRawFd as _;

impl<F: Fn() -> Counted> Census for F {
    fn counted(&self) -> Counted {
        self()
    }

    fn may_be_in_call(&self, thread: Pid) -> bool {
        thread == BUSY
    }
}

/// A thread that has returned from every call, and one that may be in one.
const IDLE: Pid = 5;
const BUSY: Pid = 6;

#[test]
fn what_a_call_under_way_makes_is_counted_before_it_is_seen() {
    let mut objects = UserObjects::default();
    let none = || Counted {
        netlink_sockets: Some(0),
        ..Counted::default()
    };
    let most = MAX_NETLINK_SOCKETS;
    assert!(objects.allow(nr::SOCKET, BUSY, &none));
    assert!((1..most).all(|_| objects.allow(nr::SOCKET, IDLE, &none)));
    // None is seen, but one may come.
    assert!((1..most).all(|_| objects.allow(nr::SOCKET, IDLE, &none)));
    assert_eq!(objects.netlink_sockets, most);
    let all_but_one = || Counted {
        netlink_sockets: Some(most - 1),
        ..Counted::default()
    };
    assert!(!objects.allow(nr::SOCKET, IDLE, &all_but_one));
    // A thread that asks is in no other call.
    assert!(objects.allow(nr::SOCKET, BUSY, &all_but_one));
}

#[test]
fn pipes_are_given_out_until_there_are_too_many_that_live() {
    let mut objects = UserObjects::default();
    let unknown = Counted::default;
    let pipes = |pipes| {
        move || Counted {
            pipes: Some(pipes),
            ..Counted::default()
        }
    };
    assert!((0..MAX_PIPES).all(|_| objects.allow(nr::PIPE2, IDLE, &unknown)));
    assert!(!objects.allow(nr::PIPE2, IDLE, &unknown));
    assert!(!objects.allow(nr::PIPE, IDLE, &pipes(MAX_PIPES)));
    assert_eq!(objects.pipe_bytes(), MAX_PIPES * PIPE_BYTES);
    assert!(objects.allow(nr::PIPE, IDLE, &pipes(3)));
    assert_eq!(objects.pipe_bytes(), 4 * PIPE_BYTES);
    assert!((0..MAX_NAMED_PIPES).all(|_| objects.allow(nr::MKNODAT, IDLE, &unknown)));
    assert!(!objects.allow(nr::MKNOD, IDLE, &unknown));
    assert!((0..MAX_INSTANCES).all(|_| objects.allow(nr::INOTIFY_INIT1, IDLE, &unknown)));
    assert!(!objects.allow(nr::INOTIFY_INIT, IDLE, &unknown));
    let sockets = |sockets| {
        move || Counted {
            netlink_sockets: Some(sockets),
            ..Counted::default()
        }
    };
    assert!((0..MAX_NETLINK_SOCKETS).all(|_| objects.allow(nr::SOCKET, IDLE, &unknown)));
    assert!(!objects.allow(nr::SOCKET, IDLE, &sockets(MAX_NETLINK_SOCKETS)));
    assert!(objects.allow(nr::SOCKET, IDLE, &sockets(MAX_NETLINK_SOCKETS - 1)));
    assert!(!objects.allow(nr::SOCKET, IDLE, &unknown));
    assert!(!objects.has_epoll());
    assert!(objects.allow(nr::EPOLL_CREATE1, IDLE, &unknown) && objects.has_epoll());
}

#[test]
fn pipes_of_a_process_are_counted_once_and_also_on_their_way() {
    let processes = crate::walls::mounts::open_proc().unwrap();
    let own = crate::sys::own_pid();
    let mut census = DescriptorCensus::new();
    census.add(processes, own);
    let before = census.counted(Some(0)).pipes.unwrap();
    let pipes: std::vec::Vec<_> = (0..300).map(|_| std::io::pipe().unwrap()).collect();
    let (near, far) = std::os::unix::net::UnixDatagram::pair().unwrap();
    let sent = [pipes[0].0.as_raw_fd(), pipes[1].0.as_raw_fd()];
    crate::sys::send(near.as_raw_fd(), &[1], &sent).unwrap();
    let mut census = DescriptorCensus::new();
    census.add(processes, own);
    census.add(processes, own);
    // Other tests have pipes and sockets as well.
    assert!((302..302 + before + 200).contains(&census.counted(Some(0)).pipes.unwrap()));
    // A socket on its way may hold others.
    assert_eq!(census.counted(None), Counted::default());
    assert_eq!(census.counted(Some(1 << 20)), Counted::default());
    drop((pipes, near, far));
    close(processes);
}

#[test]
fn netlink_sockets_of_a_process_are_told_from_others() {
    const NETLINK: usize = 16;
    const RAW_CLOEXEC: usize = 3 | 0o2_000_000;
    let processes = crate::walls::mounts::open_proc().unwrap();
    let own = crate::sys::own_pid();
    // SAFETY: no pointers.
    let socket = unsafe { syscall(nr::SOCKET, [NETLINK, RAW_CLOEXEC, 0]) }.unwrap() as Fd;
    let (near, far) = std::os::unix::net::UnixDatagram::pair().unwrap();
    let is_netlink = |number| is_netlink(processes, own, number);
    assert!(is_netlink(socket));
    assert!(!is_netlink(near.as_raw_fd()));
    let mut census = DescriptorCensus::new();
    census.add(processes, own);
    assert!(census.counted(Some(0)).netlink_sockets.unwrap() >= 1);
    assert!(crate::init::watchdog::socket_memory::netlink_sockets(processes) >= 1);
    close(socket);
    drop((near, far));
    close(processes);
}

#[test]
fn a_lock_is_that_of_the_process_in_its_line() {
    assert_eq!(
        lock_owner(b"1: POSIX  ADVISORY  WRITE 77 00:2a:5 0 0"),
        Some(77)
    );
    assert_eq!(
        lock_owner(b"1: -> POSIX  ADVISORY  WRITE 78 00:2a:5 0 0"),
        Some(78)
    );
    assert_eq!(
        lock_owner(b"2: FLOCK  ADVISORY  WRITE 77 00:2a:5 0 EOF"),
        None
    );
    assert_eq!(
        lock_owner(b"3: POSIX  ADVISORY  WRITE -1 00:2a:5 0 0"),
        None
    );
}

#[test]
fn a_set_knows_what_is_in_it_and_when_it_is_full() {
    let mut set = Distinct::<4>::none();
    let added = [7, 7, 11, 3, 5, 7, 9].map(|number| set.add(number));
    let (new, old) = (Some(true), Some(false));
    assert_eq!(added, [new, old, new, new, new, old, None]);
    assert_eq!(set.count, 4);
}

#[test]
fn a_process_that_has_ended_and_waits_for_its_parent_hides_nothing() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let processes = crate::walls::mounts::open_proc().unwrap();
    let pid = child.id() as Pid;
    while crate::init::stopped::is_living(processes, pid) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut census = DescriptorCensus::new();
    census.add(processes, pid);
    assert_eq!(census.counted(Some(0)).pipes, Some(0));
    child.wait().unwrap();
}
