//! The system call filter: a deny list of what no snippet needs and what kernels are attacked through.

use crate::sys::{Fd, Result, clone_flags, nr};
use crate::walls::users;

mod calls;
mod memory;
mod order;
mod program;
mod sockets;

pub use calls::{ATTRIBUTE_READS, CHANGES, METADATA_CHANGES, OPENS, STARTS, is_unseen_by_landlock};
use calls::{
    DENIED, FILE_FLAGS, INVISIBLE_TO_LANDLOCK, IPC, NOTIFIED, NOTIFIED_FOR_OTHERS, RESERVES,
};
pub use memory::{KernelMemory, UserObjects};
use program::{
    ACCES, ALLOW, AND, INVALID, JUMP_ANY_BIT, JUMP_EQUAL, JUMP_GREATER_EQUAL, KILL, LOAD,
    NO_CONTROL, NO_PROTOCOL, NOSYS, NOT_SUPPORTED, NOTIFY_INIT, OFFSET_NUMBER, PERM, Program,
    argument, fail_with,
};
#[cfg(test)]
use program::{Instruction, MAX_INSTRUCTIONS, OFFSET_ARCHITECTURE, RETURN};

/// Which sockets a session may make.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sockets {
    /// Internet sockets too: a network namespace around them leads nowhere.
    InEmptyNamespace,
    /// Only pairs of Unix sockets: without namespaces a socket of the host's is one `connect` away, and Landlock does not
    /// look at sockets in the file system.
    PairsOnly,
}

/// Which shared memory, semaphores and queues of System V and POSIX a session finds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ipc {
    /// Those of its namespace: its own, or by a public policy the host's.
    OfItsNamespace,
    /// None: they would be the host's.
    Forbidden,
}

/// Whether init decides about signals.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Signals {
    /// Init, through the listener that [`install`] returns.
    NotifyInit,
    /// Init is not notified.
    Free,
}

/// What bounds the number of processes and threads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Starts {
    /// Init, asked before each start: the kernel would count other processes of the same user as well.
    NotifyInit,
    /// The kernel or a cgroup. Init is not notified.
    Free,
}

/// Whether a copy of the head may become a session of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Forks {
    /// When init, asked through the listener, says so.
    NotifyInit,
    /// Never.
    Forbidden,
}

/// Whether init is notified before a file is changed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Changes {
    /// Init is notified, and has a copy kept of what is not the session's own.
    NotifyInit,
    /// Init is not notified.
    Free,
}

/// How a file gets blocks on disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Blocks {
    /// Only by writing, which takes time: gigabytes are reserved faster than anyone could look.
    ByWriting,
    /// Also by reserving them.
    ByReserving,
}

/// Which process changes a file's metadata (permissions, owner, times, attributes), and reads its attributes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Metadata {
    /// Init, in the place of the code: the session sees the host's files, and Landlock does not look at these calls.
    ByInit,
    /// The code itself: it sees no files but those that it may change, or that mounts keep it from changing.
    Free,
}

/// Which users and groups a session can name when it changes its own ids or the owner of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    /// Its own alone. The kernel says that the others are invalid (`EINVAL`), because the namespace has no others; a program without
    /// privileges expects that they are refused (`EPERM`).
    OnlyOwn,
    /// All: the kernel refuses those of others by itself.
    Free,
}

/// What a session is allowed beyond the common list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Which sockets.
    pub sockets: Sockets,
    /// Whether init decides about signals.
    pub signals: Signals,
    /// What counts the kernel's memory.
    pub memory: KernelMemory,
    /// What bounds the objects that are counted for each user.
    pub objects: UserObjects,
    /// Whose objects of System V and POSIX.
    pub ipc: Ipc,
    /// What bounds the number of its processes and threads.
    pub starts: Starts,
    /// Whether it can be forked.
    pub forks: Forks,
    /// Whether init is notified before a file is changed.
    pub changes: Changes,
    /// How files get blocks on disk.
    pub blocks: Blocks,
    /// Which process changes what Landlock does not look at.
    pub metadata: Metadata,
    /// Which users and groups it can name.
    pub ids: Ids,
}

impl Rules {
    fn notifies_init(&self) -> bool {
        self.signals == Signals::NotifyInit
            || self.starts == Starts::NotifyInit
            || self.changes == Changes::NotifyInit
            || self.metadata == Metadata::ByInit
    }
}

/// Installs the filter for this process and all it starts. The listener, if asked for, belongs into init's hands.
pub fn install(rules: Rules) -> Result<Option<Fd>> {
    const NEW_LISTENER: usize = 8;
    let mut program = Program::new();
    program.build(rules);
    let asks = rules.notifies_init();
    let outcome = program
        .in_groups()?
        .enforce(if asks { NEW_LISTENER } else { 0 })?;
    Ok(asks.then_some(outcome as Fd))
}

/// Leaves this process nothing but to open itself, to say so, to wait and to end: for one that others may tamper with.
pub fn allow_only_waiting() -> Result<()> {
    let mut program = Program::new();
    program.begin();
    for number in [nr::PRCTL, nr::SENDMSG, nr::PPOLL, nr::EXIT_GROUP] {
        program.when(number, ALLOW);
    }
    program.answer(KILL);
    program.enforce(0).map(drop)
}

impl Program {
    /// One rule after the other. Each begins with a comparison with the number of a call, and leaves the number at hand if it does not decide.
    fn build(&mut self, rules: Rules) {
        self.begin();
        let asks_about_objects =
            rules.objects == UserObjects::NotifyInit && rules.signals == Signals::NotifyInit;
        if asks_about_objects {
            self.named_pipes(NOTIFY_INIT);
        }
        self.privileged_files(rules);
        for &number in DENIED {
            self.when(number, PERM);
        }
        self.namespaces(rules.forks);
        // C libraries fall back to `clone`, whose flags can be read; those of `clone3` lie in memory and cannot.
        self.when(nr::CLONE3, NOSYS);
        self.when(nr::OPENAT2, NOSYS);
        self.starts(rules.starts);
        if rules.blocks == Blocks::ByWriting {
            self.reservations();
        }
        if rules.ids == Ids::OnlyOwn {
            self.foreign_ids();
        }
        self.file_system_controls();
        self.controls(rules);
        // No cgroup counts what waits in netlink sockets, so init bounds their number.
        let asks_about_netlink =
            rules.sockets == Sockets::InEmptyNamespace && rules.signals == Signals::NotifyInit;
        self.netlink_protocols(asks_about_netlink.then_some(NOTIFY_INIT));
        self.sockets(rules.sockets);
        self.process_descriptors();
        self.uncounted_memory(rules);
        self.leases();
        self.socket_options(rules.memory);
        if rules.memory == KernelMemory::CountedByInit {
            self.hidden_memory();
            if rules.signals == Signals::NotifyInit {
                self.shared_memory(NOTIFY_INIT);
            }
        }
        if rules.objects == UserObjects::NotifyInit {
            self.user_objects(asks_about_objects.then_some(NOTIFY_INIT));
        }
        if rules.ipc == Ipc::Forbidden {
            for &number in IPC {
                self.when(number, PERM);
            }
        }
        match rules.forks {
            Forks::Forbidden => {
                self.when(nr::SETNS, PERM);
                self.when(nr::PTRACE, PERM);
            }
            // A helper of the head enters the namespaces of a fork while init traces it (`forks/enter_namespaces.rs`).
            Forks::NotifyInit => {
                self.when(nr::SETNS, NOTIFY_INIT);
                self.being_traced();
            }
        }
        if rules.signals == Signals::NotifyInit || rules.forks == Forks::NotifyInit {
            self.process_limit();
        }
        if rules.signals == Signals::NotifyInit {
            self.signals_by_descriptor();
            for &number in NOTIFIED {
                self.when(number, NOTIFY_INIT);
            }
            for &number in NOTIFIED_FOR_OTHERS {
                self.unless_zero(number, NOTIFY_INIT);
            }
        }
        if rules.changes == Changes::NotifyInit {
            for &number in CHANGES.iter().chain(METADATA_CHANGES) {
                self.when(number, NOTIFY_INIT);
            }
            // Newer ways to do the same, which programs can do without.
            for number in [nr::SETXATTRAT, nr::REMOVEXATTRAT, nr::FILE_SETATTR] {
                self.when(number, NOSYS);
            }
        }
        if rules.metadata == Metadata::ByInit {
            let all = CHANGES
                .iter()
                .chain(METADATA_CHANGES)
                .chain(ATTRIBUTE_READS);
            for &number in all.filter(|number| is_unseen_by_landlock(**number)) {
                self.when(number, NOTIFY_INIT);
            }
            for &number in INVISIBLE_TO_LANDLOCK {
                self.when(number, NOSYS);
            }
        }
        self.answer(ALLOW);
    }

    /// `unshare` makes namespaces. With `CLONE_THREAD` alone it changes nothing, but fails where the process has other threads: so the
    /// guest learns whether it has any, also where it cannot read `/proc` (`forks/threads`). Init has the helper that enters a fork call it
    /// with `CLONE_FILES` alone: a call that is reported to init was really made.
    fn namespaces(&mut self, forks: Forks) {
        let answer_about_files = match forks {
            Forks::NotifyInit => NOTIFY_INIT,
            Forks::Forbidden => PERM,
        };
        self.add(JUMP_EQUAL, nr::UNSHARE as u32, 0, 6);
        self.add(LOAD, argument(0), 0, 0);
        self.add(JUMP_EQUAL, clone_flags::THREAD as u32, 0, 1);
        self.answer(ALLOW);
        self.add(JUMP_EQUAL, clone_flags::FILES as u32, 0, 1);
        self.answer(answer_about_files);
        self.answer(PERM);
    }

    /// What starts processes and threads makes no namespaces.
    fn starts(&mut self, starts: Starts) {
        const NAMESPACES: u32 = clone_flags::ALL_NAMESPACES as u32 & !0x80;
        let answer = match starts {
            Starts::NotifyInit => NOTIFY_INIT,
            Starts::Free => ALLOW,
        };
        self.add(JUMP_EQUAL, nr::CLONE as u32, 0, 4);
        self.add(LOAD, argument(0), 0, 0);
        self.add(JUMP_ANY_BIT, NAMESPACES, 0, 1);
        self.answer(PERM);
        self.answer(answer);
        for &number in STARTS.iter().filter(|number| **number != nr::CLONE) {
            self.when(number, answer);
        }
    }

    /// Files with the set-user-id or set-group-id bit. What a session writes to its workspace belongs to the owner of that
    /// directory. That may be root, and outside any user could run the file with root's rights.
    fn privileged_files(&mut self, rules: Rules) {
        const SET_ID: u32 = 0o6000;
        const CREATE_OR_TEMPORARY: u32 = 0o20_000_100;
        const WRITE_ONLY: u32 = 0o1;
        const READ_AND_WRITE: u32 = 0o2;
        const WRITE: u32 = WRITE_ONLY | READ_AND_WRITE;
        const EMPTY: u32 = 0o1000;
        let write = match rules.changes {
            Changes::NotifyInit => NOTIFY_INIT,
            Changes::Free => ALLOW,
        };
        // To empty what is open for reading is no writing to Landlock, before version 3.
        let empty = match rules.metadata {
            Metadata::ByInit => ACCES,
            Metadata::Free => write,
        };
        for (number, flags, mode) in [(nr::OPENAT, 2, 3), (nr::OPEN, 1, 2)] {
            // The mode counts only when the call makes a file; otherwise the register may hold anything.
            self.add(JUMP_EQUAL, number as u32, 0, 14);
            self.add(LOAD, argument(mode), 0, 0);
            self.add(JUMP_ANY_BIT, SET_ID, 0, 3);
            self.add(LOAD, argument(flags), 0, 0);
            self.add(JUMP_ANY_BIT, CREATE_OR_TEMPORARY, 0, 1);
            self.answer(PERM);
            self.add(LOAD, argument(flags), 0, 0);
            // Neither for reading nor for writing: Landlock asks for no right at all then, and each device that is opened is in use.
            self.add(JUMP_ANY_BIT, WRITE_ONLY, 0, 2);
            self.add(JUMP_ANY_BIT, READ_AND_WRITE, 0, 1);
            self.answer(INVALID);
            self.add(JUMP_ANY_BIT, WRITE, 0, 1);
            self.answer(write);
            self.add(JUMP_ANY_BIT, EMPTY, 0, 1);
            self.answer(empty);
            self.answer(ALLOW);
        }
        for (number, mode) in [
            (nr::CHMOD, 1),
            (nr::FCHMOD, 1),
            (nr::FCHMODAT, 2),
            (nr::FCHMODAT2, 2),
            (nr::CREAT, 1),
            (nr::MKNOD, 1),
            (nr::MKNODAT, 2),
        ] {
            let otherwise = match number {
                number if is_unseen_by_landlock(number) && rules.metadata == Metadata::ByInit => {
                    NOTIFY_INIT
                }
                number if number == nr::CREAT || METADATA_CHANGES.contains(&number) => write,
                _ => ALLOW,
            };
            self.add(JUMP_EQUAL, number as u32, 0, 4);
            self.add(LOAD, argument(mode), 0, 0);
            self.add(JUMP_ANY_BIT, SET_ID, 0, 1);
            self.answer(PERM);
            self.answer(otherwise);
        }
    }

    /// Reserving blocks. C libraries write instead where `fallocate` is not supported, as on some file systems; what makes a file
    /// smaller on disk stays.
    fn reservations(&mut self) {
        const PUNCH_HOLE_KEEP_SIZE: u32 = 3;
        const COLLAPSE_RANGE: u32 = 8;
        self.add(JUMP_EQUAL, nr::FALLOCATE as u32, 0, 5);
        self.add(LOAD, argument(1), 0, 0);
        self.add(JUMP_EQUAL, PUNCH_HOLE_KEEP_SIZE, 1, 0);
        self.add(JUMP_EQUAL, COLLAPSE_RANGE, 0, 1);
        self.answer(ALLOW);
        self.answer(NOT_SUPPORTED);
        self.add(
            JUMP_EQUAL,
            nr::IOCTL as u32,
            0,
            2 + 2 * RESERVES.len() as u8,
        );
        self.add(LOAD, argument(1), 0, 0);
        for &request in RESERVES {
            self.when(request as usize, NO_CONTROL);
        }
        self.add(LOAD, OFFSET_NUMBER, 0, 0);
    }

    /// Requests of btrfs: it takes a snapshot of the whole subvolume, files beside the workspace included, for the owner of any file in it
    /// (before Linux 6.8), and makes subvolumes, which have a device number of their own. What shares blocks between files has the same
    /// group of numbers, and other file systems know it too.
    fn file_system_controls(&mut self) {
        const GROUP: u32 = 0xFF00;
        const BTRFS: u32 = 0x9400;
        const SHARE_BLOCKS: [u32; 3] = [0x4004_9409, 0x4020_940D, 0xC018_9436];
        self.add(JUMP_EQUAL, nr::IOCTL as u32, 0, 8);
        self.add(LOAD, argument(1), 0, 0);
        for (index, request) in SHARE_BLOCKS.into_iter().enumerate() {
            self.add(JUMP_EQUAL, request, 5 - index as u8, 0);
        }
        self.add(AND, GROUP, 0, 0);
        self.add(JUMP_EQUAL, BTRFS, 0, 1);
        self.answer(NO_CONTROL);
        self.add(LOAD, OFFSET_NUMBER, 0, 0);
    }

    /// Typing into a terminal that is shared with a person; and signals to a process that a descriptor is tied to, which the
    /// kernel sends by itself: the id of the process is in memory, where code can change it after init has read it.
    fn controls(&mut self, rules: Rules) {
        const TIOCSTI: u32 = 0x5412;
        const TIOCLINUX: u32 = 0x541C;
        const FIOSETOWN: u32 = 0x8901;
        const SIOCSPGRP: u32 = 0x8902;
        let metadata = match (rules.changes, rules.metadata) {
            (Changes::Free, Metadata::Free) => &[],
            _ => FILE_FLAGS,
        };
        self.add(
            JUMP_EQUAL,
            nr::IOCTL as u32,
            0,
            7 + 2 * metadata.len() as u8,
        );
        self.add(LOAD, argument(1), 0, 0);
        for &request in metadata {
            self.add(JUMP_EQUAL, request, 0, 1);
            self.answer(NO_CONTROL);
        }
        self.add(JUMP_EQUAL, TIOCSTI, 3, 0);
        self.add(JUMP_EQUAL, FIOSETOWN, 2, 0);
        self.add(JUMP_EQUAL, SIOCSPGRP, 1, 0);
        self.add(JUMP_EQUAL, TIOCLINUX, 0, 1);
        self.answer(PERM);
        self.answer(ALLOW);
    }

    /// The same by `fcntl`: an id in a register can be checked by init, one in memory cannot.
    fn signals_by_descriptor(&mut self) {
        const F_SETOWN: u32 = 8;
        const F_SETOWN_EX: u32 = 15;
        self.add(JUMP_EQUAL, nr::FCNTL as u32, 0, 6);
        self.add(LOAD, argument(1), 0, 0);
        self.add(JUMP_EQUAL, F_SETOWN, 0, 1);
        self.answer(NOTIFY_INIT);
        self.add(JUMP_EQUAL, F_SETOWN_EX, 0, 1);
        self.answer(PERM);
        self.answer(ALLOW);
    }

    /// Tracing another process is refused. Being traced by the parent is what init is asked about, for init may be that parent.
    fn being_traced(&mut self) {
        const TRACE_ME: u32 = 0;
        self.add(JUMP_EQUAL, nr::PTRACE as u32, 0, 4);
        self.add(LOAD, argument(0), 0, 0);
        self.add(JUMP_EQUAL, TRACE_ME, 0, 1);
        self.answer(NOTIFY_INIT);
        self.answer(PERM);
    }

    /// Refuses the ids of other users and groups. -1 leaves an id as it is.
    fn foreign_ids(&mut self) {
        const UNCHANGED: u32 = u32::MAX;
        // The first argument that is an id, how many there are, and the calls.
        let calls: [(u32, u32, &[usize]); 5] = [
            (0, 1, &[nr::SETUID, nr::SETGID]),
            (0, 2, &[nr::SETREUID, nr::SETREGID]),
            (0, 3, &[nr::SETRESUID, nr::SETRESGID]),
            (1, 2, &[nr::CHOWN, nr::LCHOWN, nr::FCHOWN]),
            (2, 2, &[nr::FCHOWNAT]),
        ];
        for (first, count, numbers) in calls {
            for &number in numbers {
                self.add(JUMP_EQUAL, number as u32, 0, 4 * count as u8 + 1);
                for id in first..first + count {
                    self.add(LOAD, argument(id), 0, 0);
                    self.add(JUMP_EQUAL, users::SESSION_ID, 2, 0);
                    self.add(JUMP_EQUAL, UNCHANGED, 1, 0);
                    self.answer(PERM);
                }
                self.add(LOAD, OFFSET_NUMBER, 0, 0);
            }
        }
    }

    /// The limit of processes is a soft one, because init changes it: for processes of forks, and where the kernel counts other processes of
    /// the user as well. So init sets it in the place of the session's code, which may lower it.
    fn process_limit(&mut self) {
        const PROCESSES: u32 = 6;
        self.when_argument(nr::SETRLIMIT, 0, JUMP_EQUAL, PROCESSES, NOTIFY_INIT);
        // A null pointer only asks. What is not about this limit goes on to the notifications about other processes.
        self.add(JUMP_EQUAL, nr::PRLIMIT64 as u32, 0, 8);
        self.add(LOAD, argument(1), 0, 0);
        self.add(JUMP_EQUAL, PROCESSES, 0, 5);
        self.add(LOAD, argument(2), 0, 0);
        self.add(JUMP_EQUAL, 0, 0, 2);
        self.add(LOAD, argument(2) + 4, 0, 0);
        self.add(JUMP_EQUAL, 0, 1, 0);
        self.answer(NOTIFY_INIT);
        self.add(LOAD, OFFSET_NUMBER, 0, 0);
    }
}

#[cfg(test)]
mod architecture_tests;
#[cfg(test)]
mod files_tests;
#[cfg(test)]
mod memory_tests;
#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod sockets_tests;
#[cfg(test)]
mod tests;
