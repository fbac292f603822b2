//! Objects of the kernel of which each user has a certain number: pages in pipes, watches of epoll. The user of a session may be the host's own,
//! so one session gets a small share of them.
//!
//! The kernel has no limit for one session, but the filter asks init before a pipe is made. Init counts what it allowed, and looks at what there is
//! when that is too much.

use crate::init::stopped::is_living;
use crate::init::sweep::each_entry;
use crate::init::watchdog::calls_under_way::CallsUnderWay;
use crate::init::watchdog::process_memory::living_thread;
use crate::sys::text::{Text, leading_number};
use crate::sys::{
    Fd, Pid, close, each_line_at, each_line_while_at, get_attribute, nr, open_at, open_flags,
    read_link_at, syscall,
};
use core::ffi::CStr;

/// The most pipes of one session: each takes 16 of the 16 384 pages that a user has on most machines.
pub const MAX_PIPES: u64 = 256;
/// The most named pipes that a session ever makes. They take pages only while they are open, and init does not learn when that is.
pub const MAX_NAMED_PIPES: u64 = 64;
/// The most instances of inotify in one session: a user has 128 on most machines. In a user namespace of its own the kernel keeps to that by itself.
pub const MAX_INSTANCES: u64 = 8;
/// The most watches of epoll in one session. A user has one for each 4 KiB of a small machine's memory, and more on a large one.
pub const MAX_WATCHES: u64 = 32_768;
/// The most rules of Landlock that one session ever makes.
pub const MAX_RULES: u64 = 4096;

/// The most netlink sockets in one session. No cgroup counts the answers that wait in them: 208 KiB in each.
pub const MAX_NETLINK_SOCKETS: u64 = 64;

/// The most locks on parts of files that processes of one session hold. The kernel has no limit for them, and takes 200 bytes for each.
pub const MAX_LOCKS: u64 = 16_384;

/// Bytes of one pipe: the filter refuses to make it larger.
pub const PIPE_BYTES: u64 = 64 << 10;

/// What one session was allowed.
#[derive(Default)]
pub struct UserObjects {
    /// Not less than there are.
    pipes: u64,
    named_pipes: u64,
    instances: u64,
    rules: u64,
    /// Not less than there are.
    netlink_sockets: u64,
    has_epoll: bool,
    has_listener: bool,
    calls_under_way: CallsUnderWay,
}

/// What tells how many objects a session has.
pub trait Census {
    /// What the session has at once.
    fn counted(&self) -> Counted;

    /// Whether a thread can still be in a call that it was allowed: it runs, or it waits where no signal wakes it.
    fn may_be_in_call(&self, thread: Pid) -> bool;
}

/// Objects that a session may have again when it has closed others.
#[derive(Clone, Copy)]
enum ObjectKind {
    Pipe,
    Instance,
    NetlinkSocket,
}

impl UserObjects {
    /// Whether a call asks for one of these objects, or begins to listen.
    pub fn is_about(number: usize) -> bool {
        matches!(
            number,
            nr::PIPE
                | nr::PIPE2
                | nr::INOTIFY_INIT
                | nr::INOTIFY_INIT1
                | nr::EPOLL_CREATE
                | nr::EPOLL_CREATE1
                | nr::MKNOD
                | nr::MKNODAT
                | nr::LANDLOCK_ADD_RULE
                | nr::SOCKET
                | nr::MMAP
                | nr::LISTEN
        )
    }

    /// Whether a thread may make this call. `census` counts what the session has, when more was allowed than it may have at once.
    pub fn allow(&mut self, number: usize, caller: Pid, census: &impl Census) -> bool {
        match number {
            nr::PIPE | nr::PIPE2 => self.take(ObjectKind::Pipe, caller, census),
            nr::INOTIFY_INIT | nr::INOTIFY_INIT1 => self.take(ObjectKind::Instance, caller, census),
            // Only about netlink sockets.
            nr::SOCKET => self.take(ObjectKind::NetlinkSocket, caller, census),
            nr::MKNOD | nr::MKNODAT => take_one(&mut self.named_pipes, MAX_NAMED_PIPES),
            nr::LANDLOCK_ADD_RULE => take_one(&mut self.rules, MAX_RULES),
            nr::LISTEN => {
                self.has_listener = true;
                true
            }
            _ => {
                self.has_epoll = true;
                true
            }
        }
    }

    fn take(&mut self, kind: ObjectKind, caller: Pid, census: &impl Census) -> bool {
        let calls = &mut self.calls_under_way;
        let (taken, most) = match kind {
            ObjectKind::Pipe => (&mut self.pipes, MAX_PIPES),
            ObjectKind::Instance => (&mut self.instances, MAX_INSTANCES),
            ObjectKind::NetlinkSocket => (&mut self.netlink_sockets, MAX_NETLINK_SOCKETS),
        };
        let may_be_in_call = |thread| census.may_be_in_call(thread);
        calls.has_returned(caller);
        if *taken >= most {
            // First the calls, then the objects: a call that returns in between is counted twice, and not left out.
            let under_way = calls.count(may_be_in_call);
            let counted = census.counted();
            let seen = match kind {
                ObjectKind::Pipe => counted.pipes,
                ObjectKind::Instance => counted.instances,
                ObjectKind::NetlinkSocket => counted.netlink_sockets,
            };
            if let Some(seen) = seen {
                *taken = seen + under_way;
            }
        }
        *taken < most && calls.begin(caller, may_be_in_call) && take_one(taken, most)
    }

    /// Bytes that the session's pipes can hold.
    pub fn pipe_bytes(&self) -> u64 {
        (self.pipes + self.named_pipes) * PIPE_BYTES
    }

    /// Whether there can be connections that wait to be accepted.
    pub fn has_listener(&self) -> bool {
        self.has_listener
    }

    /// Whether there can be watches of epoll.
    pub fn has_epoll(&self) -> bool {
        self.has_epoll
    }
}

/// What a session has at once, where all of it was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Its pipes.
    pub pipes: Option<u64>,
    /// Its instances of inotify.
    pub instances: Option<u64>,
    /// Its netlink sockets.
    pub netlink_sockets: Option<u64>,
}

fn take_one(count: &mut u64, most: u64) -> bool {
    let is_free = *count < most;
    *count += u64::from(is_free);
    is_free
}

/// Counts the pipes and sockets of processes, each once, and their instances of inotify, wherever they are seen.
pub struct DescriptorCensus {
    pipes: Distinct<1024>,
    sockets: Distinct<4096>,
    /// How many of the sockets are netlink sockets.
    netlink_sockets: u64,
    instances: u64,
    /// Descriptors that are on their way through a socket, and may be any of these.
    on_their_way: u64,
    is_complete: bool,
}

impl DescriptorCensus {
    /// A count without any process yet.
    pub fn new() -> DescriptorCensus {
        DescriptorCensus {
            pipes: Distinct::none(),
            sockets: Distinct::none(),
            netlink_sockets: 0,
            instances: 0,
            on_their_way: 0,
            is_complete: true,
        }
    }

    /// Adds those of a process.
    pub fn add(&mut self, proc_directory: Fd, pid: Pid) {
        let pid = living_thread(proc_directory, pid);
        let seen = each_descriptor(proc_directory, pid, |number, target| {
            if let Some(inode) = inode_in(target, b"pipe:[") {
                self.is_complete &= self.pipes.add(inode).is_some();
            } else if let Some(inode) = inode_in(target, b"socket:[") {
                match self.sockets.add(inode) {
                    Some(true) => {
                        self.on_their_way += descriptors_in(proc_directory, pid, number);
                        self.netlink_sockets += u64::from(is_netlink(proc_directory, pid, number));
                    }
                    Some(false) => {}
                    None => self.is_complete = false,
                }
            } else if target == b"anon_inode:inotify" {
                self.instances += 1;
            }
        });
        self.is_complete &= seen;
    }

    /// How many sockets were seen.
    pub fn sockets(&self) -> u64 {
        self.sockets.count as u64
    }

    /// How many there can be of each. `None` where some may not have been seen: in a process that init may not look into, or in a socket that itself is on
    /// its way. Where the session has no network namespace of its own, any descriptor on its way may be such a socket.
    pub fn counted(&self, sockets_in_namespace: Option<u64>) -> Counted {
        let is_all = self.is_complete
            && match sockets_in_namespace {
                Some(sockets) => sockets <= self.sockets(),
                None => self.on_their_way == 0,
            };
        let with_those_on_their_way = |seen: u64| is_all.then_some(seen + self.on_their_way);
        Counted {
            pipes: with_those_on_their_way(self.pipes.count as u64),
            instances: with_those_on_their_way(self.instances),
            netlink_sockets: with_those_on_their_way(self.netlink_sockets),
        }
    }
}

impl Default for DescriptorCensus {
    fn default() -> DescriptorCensus {
        DescriptorCensus::new()
    }
}

/// Counts the watches of epoll in processes, each once.
pub struct WatchCensus {
    /// Where those with many watches were seen: processes that are forked have them in common.
    seen: [(Pid, Fd); MAX_KNOWN_EPOLLS],
    known: usize,
    watches: u64,
}

const MAX_KNOWN_EPOLLS: usize = 64;

impl WatchCensus {
    /// A count without any process yet.
    pub fn new() -> WatchCensus {
        WatchCensus {
            seen: [(0, 0); MAX_KNOWN_EPOLLS],
            known: 0,
            watches: 0,
        }
    }

    /// Adds those of a process.
    pub fn add(&mut self, proc_directory: Fd, pid: Pid) {
        /// So few are counted wherever they are seen.
        const ALWAYS_COUNTED: u64 = 64;
        let pid = living_thread(proc_directory, pid);
        each_descriptor(proc_directory, pid, |number, target| {
            if target != b"anon_inode:[eventpoll]" || self.is_over() {
                return;
            }
            let watches = watches_of(proc_directory, pid, number);
            let seen = &self.seen[..self.known];
            if watches > ALWAYS_COUNTED
                && seen.iter().any(|other| is_one_file(*other, (pid, number)))
            {
                return;
            }
            self.watches += watches;
            if watches > ALWAYS_COUNTED
                && let Some(slot) = self.seen.get_mut(self.known)
            {
                *slot = (pid, number);
                self.known += 1;
            }
        });
    }

    /// How many there are: at least, when they are too many.
    pub fn watches(&self) -> u64 {
        self.watches
    }

    /// Whether there are more than one session may have.
    pub fn is_over(&self) -> bool {
        self.watches > MAX_WATCHES
    }
}

impl Default for WatchCensus {
    fn default() -> WatchCensus {
        WatchCensus::new()
    }
}

/// How many locks on parts of files the processes hold of which `is_own` says so.
///
/// To read a long list of locks takes the kernel very long, so it is not read further than to the first lock that is too many.
pub fn locks(proc_directory: Fd, is_own: impl Fn(Pid) -> bool) -> u64 {
    let mut last = (0, false);
    let mut count = 0;
    let _ = each_line_while_at(proc_directory, c"locks", |line| {
        if let Some(owner) = lock_owner(line) {
            if last.0 != owner {
                last = (owner, is_own(owner));
            }
            count += u64::from(last.1);
        }
        count <= MAX_LOCKS
    });
    count
}

/// The process whose lock on a part of a file a line of `locks` shows.
fn lock_owner(line: &[u8]) -> Option<Pid> {
    let words = line.split(|byte| *byte == b' ');
    let mut words = words
        .filter(|word| !word.is_empty())
        .skip_while(|word| *word != b"POSIX");
    leading_number(words.nth(3)?).map(|pid| pid as Pid)
}

fn watches_of(proc_directory: Fd, pid: Pid, number: Fd) -> u64 {
    let mut watches = 0;
    if let Ok(path) = Text::<64>::new(format_args!("{pid}/fdinfo/{number}")) {
        let _ = each_line_while_at(proc_directory, path.as_c_str(), |line| {
            watches += u64::from(line.starts_with(b"tfd:"));
            watches <= MAX_WATCHES
        });
    }
    watches
}

/// How many descriptors wait to be received from a Unix socket.
pub(super) fn descriptors_in(proc_directory: Fd, pid: Pid, number: Fd) -> u64 {
    const NAME: &[u8] = b"scm_fds:";
    let mut count = 0;
    if let Ok(path) = Text::<64>::new(format_args!("{pid}/fdinfo/{number}")) {
        let _ = each_line_at(proc_directory, path.as_c_str(), |line| {
            if let Some(rest) = line.strip_prefix(NAME) {
                count = leading_number(rest.trim_ascii_start()).unwrap_or(0);
            }
        });
    }
    count
}

/// Whether a descriptor is a netlink socket, or may be one.
fn is_netlink(proc_directory: Fd, pid: Pid, number: Fd) -> bool {
    const PROTOCOL_NAME: &CStr = c"system.sockprotoname";
    let opened = Text::<48>::new(format_args!("{pid}/fd/{number}"))
        .and_then(|path| open_at(proc_directory, path.as_c_str(), open_flags::PATH, 0));
    let Ok(socket) = opened else { return true };
    let mut name = [0; 32];
    let read = Text::<32>::new(format_args!("/proc/self/fd/{socket}"))
        .and_then(|path| get_attribute(path.as_c_str(), PROTOCOL_NAME, &mut name));
    close(socket);
    read.is_err() || name.starts_with(b"NETLINK\0")
}

/// Whether two processes have one and the same file open.
fn is_one_file((process, number): (Pid, Fd), (other, other_number): (Pid, Fd)) -> bool {
    const FILE: usize = 0;
    let words = [
        process as usize,
        other as usize,
        FILE,
        number as usize,
        other_number as usize,
    ];
    // SAFETY: no pointers.
    let outcome = unsafe { syscall(nr::KCMP, words) };
    outcome == Ok(0)
}

/// Calls `visit` with each descriptor of a process and what its link says. Returns whether one may look: a process that has ended has none, also while it waits for
/// its parent.
pub(super) fn each_descriptor(
    proc_directory: Fd,
    pid: Pid,
    mut visit: impl FnMut(Fd, &[u8]),
) -> bool {
    let directory = Text::<32>::new(format_args!("{pid}/fd"))
        .and_then(|path| open_at(proc_directory, path.as_c_str(), open_flags::DIRECTORY, 0));
    let Ok(directory) = directory else {
        return !is_living(proc_directory, pid);
    };
    each_entry(directory, |number| {
        let mut target = [0; 64];
        let length = Text::<16>::new(format_args!("{number}"))
            .and_then(|name| read_link_at(directory, name.as_c_str(), &mut target));
        // What is longer is the path of a file.
        if let Ok(length) = length {
            visit(number, &target[..length]);
        }
    });
    close(directory);
    true
}

fn inode_in(target: &[u8], prefix: &[u8]) -> Option<u64> {
    leading_number(target.strip_prefix(prefix)?)
}

/// A set of numbers, none of them 0, that holds nearly `N`.
struct Distinct<const N: usize> {
    slots: [u64; N],
    count: usize,
}

impl<const N: usize> Distinct<N> {
    fn none() -> Self {
        Distinct {
            slots: [0; N],
            count: 0,
        }
    }

    /// Whether it is new; `None` when the set is full.
    fn add(&mut self, number: u64) -> Option<bool> {
        let start = (number as usize).wrapping_mul(0x9E37_79B1) % N;
        for step in 0..N {
            let slot = &mut self.slots[(start + step) % N];
            if *slot == number {
                return Some(false);
            }
            if *slot == 0 {
                *slot = number;
                self.count += 1;
                return Some(true);
            }
        }
        None
    }
}

#[cfg(test)]
#[path = "user_objects_tests.rs"]
mod tests;
