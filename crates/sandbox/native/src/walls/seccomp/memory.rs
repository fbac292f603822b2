//! The part of the filter about memory that the kernel holds for a session, and about what it counts for each user.

use super::{
    INVALID, JUMP_ANY_BIT, JUMP_EQUAL, JUMP_GREATER_EQUAL, LOAD, NOSYS, NOT_SUPPORTED, NOTIFY_INIT,
    OFFSET_NUMBER, PERM, Program, Rules, Signals, Sockets, argument, fail_with,
};
use crate::sys::nr;

const NO_MEMORY: u32 = fail_with(12);
const NO_SPACE: u32 = fail_with(28);
/// The call returns 0 and does nothing.
const DONE: u32 = fail_with(0);

/// What counts the memory that the kernel holds for a session beside that of its processes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum KernelMemory {
    /// A cgroup, which sees nearly everything.
    CountedByCgroup,
    /// Init, which sees processes, file systems and sockets. Calls that hide memory from it are refused.
    CountedByInit,
}

/// What bounds the kernel's objects of which each user has a certain number, such as pages in pipes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum UserObjects {
    /// Init, which is asked before one is made (`init/watchdog/user_objects.rs`).
    NotifyInit,
    /// Nothing: the session has a user of its own.
    Free,
}

/// Pages of files or of other processes that a pipe or a socket goes on holding when they are unmapped or truncated. One byte of a page,
/// or of a huge page, is enough to hold all of it, and only that byte is accounted for. Programs copy instead.
const MOVES_PAGES: &[usize] = &[nr::VMSPLICE, nr::SPLICE, nr::SENDFILE];

/// The largest size of a pipe that needs no privilege and no setting: the default.
const PIPE_BYTES: u32 = 64 << 10;

/// The largest attribute of a file. Lists of users are attributes too, and no cgroup counts those of files in memory.
const ATTRIBUTE_BYTES: u32 = 512;

impl Rules {
    /// Whether init is notified of sockets that begin to listen. A connection belongs to no cgroup before it is accepted, and no cgroup counts the data
    /// that wait in it. Init counts them from then on. Where init counts memory, it counts those of all sockets.
    fn notifies_of_listeners(&self) -> bool {
        self.memory == KernelMemory::CountedByCgroup
            && self.sockets == Sockets::InEmptyNamespace
            && self.signals == Signals::NotifyInit
    }
}

impl Program {
    /// What is refused with and without a cgroup: no cgroup counts it, or the whole machine has only so much of it.
    pub(super) fn uncounted_memory(&mut self, rules: Rules) {
        self.when(nr::IO_SETUP, NOSYS);
        if rules.notifies_of_listeners() {
            self.when(nr::LISTEN, NOTIFY_INIT);
        }
        for number in [nr::SETXATTR, nr::LSETXATTR, nr::FSETXATTR] {
            self.add(JUMP_EQUAL, number as u32, 0, 4);
            self.add(LOAD, argument(3), 0, 0);
            self.add(JUMP_GREATER_EQUAL, ATTRIBUTE_BYTES + 1, 0, 1);
            self.answer(NO_SPACE);
            self.add(LOAD, OFFSET_NUMBER, 0, 0);
        }
        // Its arguments lie in memory.
        self.when(nr::SETXATTRAT, NOSYS);
        self.huge_pages();
    }

    /// Pages of the machine's pool of huge pages: an administrator sets them aside for one program, such as a database. They are in no
    /// process's memory that is counted, and in no cgroup's but one of their own. The answer is that of an empty pool.
    fn huge_pages(&mut self) {
        const IN_MAPPING: u32 = 0x4_0000;
        const IN_NAMELESS_FILE: u32 = 0x4;
        const IN_SEGMENT: u32 = 0o4000;
        for (number, flags, bit) in [
            (nr::MMAP, 3, IN_MAPPING),
            (nr::MEMFD_CREATE, 1, IN_NAMELESS_FILE),
            (nr::SHMGET, 2, IN_SEGMENT),
        ] {
            self.add(JUMP_EQUAL, number as u32, 0, 4);
            self.add(LOAD, argument(flags), 0, 0);
            self.add(JUMP_ANY_BIT, bit, 0, 1);
            self.answer(NO_MEMORY);
            self.add(LOAD, OFFSET_NUMBER, 0, 0);
        }
    }

    /// A lease on a file makes every other process that opens it wait for up to 45 seconds: the host, and the sessions that share the file.
    pub(super) fn leases(&mut self) {
        const SET_LEASE: u32 = 1024;
        self.add(JUMP_EQUAL, nr::FCNTL as u32, 0, 4);
        self.add(LOAD, argument(1), 0, 0);
        self.add(JUMP_EQUAL, SET_LEASE, 0, 1);
        self.answer(INVALID);
        self.add(LOAD, OFFSET_NUMBER, 0, 0);
    }

    /// What is refused where init counts, because init cannot see it.
    pub(super) fn hidden_memory(&mut self) {
        const FUTEX_HASH: u32 = 78;
        self.when(nr::MEMFD_CREATE, NOSYS);
        for &number in MOVES_PAGES {
            self.when(number, NOSYS);
        }
        self.add(JUMP_EQUAL, nr::PRCTL as u32, 0, 4);
        self.add(LOAD, argument(0), 0, 0);
        self.add(JUMP_EQUAL, FUTEX_HASH, 0, 1);
        self.answer(INVALID);
        self.add(LOAD, OFFSET_NUMBER, 0, 0);
        self.populated_mappings();
        self.locks_of_open_files();
    }

    /// Calls that fill a mapping at once. They hold the lock of the process's memory until they are done, and init, which needs this lock to look into the
    /// process, waits while gigabytes are taken. Programs that are refused touch the pages one by one.
    fn populated_mappings(&mut self) {
        const MAP_POPULATE: u32 = 0x8000;
        const POPULATE_READ: u32 = 22;
        const POPULATE_WRITE: u32 = 23;
        self.add(JUMP_EQUAL, nr::MMAP as u32, 0, 4);
        self.add(LOAD, argument(3), 0, 0);
        self.add(JUMP_ANY_BIT, MAP_POPULATE, 0, 1);
        self.answer(NOT_SUPPORTED);
        self.add(LOAD, OFFSET_NUMBER, 0, 0);
        self.add(JUMP_EQUAL, nr::MADVISE as u32, 0, 5);
        self.add(LOAD, argument(2), 0, 0);
        self.add(JUMP_EQUAL, POPULATE_READ, 1, 0);
        self.add(JUMP_EQUAL, POPULATE_WRITE, 0, 1);
        self.answer(INVALID);
        self.add(LOAD, OFFSET_NUMBER, 0, 0);
    }

    /// Asks init before shared memory without a name is mapped: its pages stay when they are unmapped, and then no process shows them.
    pub(super) fn shared_memory(&mut self, ask: u32) {
        const SHARED: u32 = 0x1;
        const ANONYMOUS: u32 = 0x20;
        self.add(JUMP_EQUAL, nr::MMAP as u32, 0, 5);
        self.add(LOAD, argument(3), 0, 0);
        self.add(JUMP_ANY_BIT, SHARED, 0, 2);
        self.add(JUMP_ANY_BIT, ANONYMOUS, 0, 1);
        self.answer(ask);
        self.add(LOAD, OFFSET_NUMBER, 0, 0);
    }

    /// `/proc/locks` shows no process for these locks, so init cannot count them.
    fn locks_of_open_files(&mut self) {
        const SET: u32 = 37;
        const SET_AND_WAIT: u32 = 38;
        self.add(JUMP_EQUAL, nr::FCNTL as u32, 0, 5);
        self.add(LOAD, argument(1), 0, 0);
        self.add(JUMP_EQUAL, SET, 1, 0);
        self.add(JUMP_EQUAL, SET_AND_WAIT, 0, 1);
        self.answer(INVALID);
        self.add(LOAD, OFFSET_NUMBER, 0, 0);
    }

    /// Options of sockets: programs at them, which take their memory from what the whole machine has for programs; and the size of buffers,
    /// which stays the default. That of receive buffers does everywhere, because no cgroup counts what is in those of netlink sockets. That of send
    /// buffers does where init counts: a socket that is closed goes on filling the one at its other end, and then the default is all that
    /// init knows of it.
    pub(super) fn socket_options(&mut self, memory: KernelMemory) {
        const SOCKET_LEVEL: u32 = 1;
        const PROGRAMS: [u32; 4] = [26, 50, 51, 52];
        const RECEIVE_BUFFERS: [u32; 2] = [8, 33];
        const ALL_BUFFERS: [u32; 4] = [7, 8, 32, 33];
        let buffers: &[u32] = match memory {
            KernelMemory::CountedByCgroup => &RECEIVE_BUFFERS,
            KernelMemory::CountedByInit => &ALL_BUFFERS,
        };
        let tests = 2 * (PROGRAMS.len() + buffers.len()) as u8;
        self.add(JUMP_EQUAL, nr::SETSOCKOPT as u32, 0, 4 + tests);
        self.add(LOAD, argument(1), 0, 0);
        self.add(JUMP_EQUAL, SOCKET_LEVEL, 0, 1 + tests);
        self.add(LOAD, argument(2), 0, 0);
        for (options, answer) in [(&PROGRAMS[..], PERM), (buffers, DONE)] {
            for &option in options {
                self.add(JUMP_EQUAL, option, 0, 1);
                self.answer(answer);
            }
        }
        self.add(LOAD, OFFSET_NUMBER, 0, 0);
    }

    /// Pipes are of the default size, and init is asked about each, if it can be.
    pub(super) fn user_objects(&mut self, ask: Option<u32>) {
        const SET_PIPE_SIZE: u32 = 1031;
        const PORTS: u32 = 2;
        self.add(JUMP_EQUAL, nr::FCNTL as u32, 0, 6);
        self.add(LOAD, argument(1), 0, 0);
        self.add(JUMP_EQUAL, SET_PIPE_SIZE, 0, 3);
        self.add(LOAD, argument(2), 0, 0);
        self.add(JUMP_GREATER_EQUAL, PIPE_BYTES + 1, 0, 1);
        self.answer(PERM);
        self.add(LOAD, OFFSET_NUMBER, 0, 0);
        // A hundred bytes for each port, as often as wanted.
        self.add(JUMP_EQUAL, nr::LANDLOCK_ADD_RULE as u32, 0, 4);
        self.add(LOAD, argument(1), 0, 0);
        self.add(JUMP_EQUAL, PORTS, 0, 1);
        self.answer(NOT_SUPPORTED);
        self.add(LOAD, OFFSET_NUMBER, 0, 0);
        let Some(ask) = ask else { return };
        for number in [
            nr::PIPE,
            nr::PIPE2,
            nr::INOTIFY_INIT,
            nr::INOTIFY_INIT1,
            nr::EPOLL_CREATE,
            nr::EPOLL_CREATE1,
            nr::LANDLOCK_ADD_RULE,
        ] {
            self.when(number, ask);
        }
    }

    /// Pipes with a name are pipes as soon as they are open. Comes before the rule that settles everything else about these calls.
    pub(super) fn named_pipes(&mut self, ask: u32) {
        const PIPE: u32 = 0o010_000;
        const SET_ID: u32 = 0o6000;
        for (number, mode) in [(nr::MKNOD, 1), (nr::MKNODAT, 2)] {
            self.add(JUMP_EQUAL, number as u32, 0, 5);
            self.add(LOAD, argument(mode), 0, 0);
            self.add(JUMP_ANY_BIT, PIPE, 0, 2);
            self.add(JUMP_ANY_BIT, SET_ID, 1, 0);
            self.answer(ask);
            self.add(LOAD, OFFSET_NUMBER, 0, 0);
        }
    }
}
