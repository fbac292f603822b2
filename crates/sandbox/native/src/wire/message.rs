//! What init, the launcher and the host say to each other.

use crate::sys::{Errno, Result};
use crate::wire::config::record;

record! {
    /// One message on a control socket: a kind and three numbers that it explains.
    Message {
        /// One of [`to_init`], [`from_init`], [`to_launcher`] or [`from_launcher`].
        kind,
        /// First number.
        a,
        /// Second number.
        b,
        /// Third number.
        c,
    }
}

/// Host to init.
pub mod to_init {
    /// Send signal `a` to the head.
    pub const SIGNAL: u64 = 1;
    /// End the head and everything it started; keep the standbys. The standby `a`, if it is one, is the head then.
    pub const SWEEP: u64 = 2;
    /// Process `a` is a standby: protect it. `b`: when the head was asked for it, in ticks since the machine was started; 0 when it is the
    /// copy that a standby left when it was woken.
    pub const PROTECT: u64 = 3;
    /// Wake the standby `a`, unless it was woken already: it is the head now.
    pub const WAKE: u64 = 4;
    /// Let the standby `a` go.
    pub const DROP: u64 = 5;
    /// A fork is asked for in a moment: its init can be made.
    pub const BEGIN_FORK: u64 = 6;
    /// Make the init of a fork, unless it was begun already, and its namespaces. A [`Spawn`](crate::wire::config::Spawn) follows, with strings and descriptors.
    pub const FORK: u64 = 7;
    /// The fork that was begun or prepared is not wanted any more, or has been there for too long.
    pub const CANCEL: u64 = 8;
    /// On the socket for files: the call `a` may go on. `b`: when it removes something, 1 if the whole directory is kept; else the inode of
    /// the file, which is the session's own, or 0. `c`: 0, or the error number with which the call shall fail instead.
    pub const KEPT: u64 = 9;
    /// On the socket for files: what was last written at `a` (nanoseconds since 1970) or before shall be kept.
    pub const KEEP_OLDER: u64 = 10;
    /// Start the spawner. The request of the session follows the message; two sockets to the host come along: that of the spawner, and one for
    /// init, on which [`END_SPAWNED`] comes.
    pub const START_SPAWNER: u64 = 11;
    /// On the socket for spawned processes: end everything below the supervisor with the process id `a`. The supervisor ends when nothing is left below it.
    pub const END_SPAWNED: u64 = 12;
    /// To the init of a fork whose head is ready: look whether the fork still holds something of its parent's. `a`: the inode of the head's end of its channel.
    pub const CHECK_FORK: u64 = 13;
}

/// Spawner to host, and each supervisor to host on the socket of its process.
pub mod from_spawner {
    /// The spawner, process `a`, waits for requests; or the process `a` runs, below the supervisor with the process id `b`.
    pub const STARTED: u64 = 1;
    /// The spawner or the process could not be started. `a`: the [`Stage`](super::Stage), `b`: the error number.
    pub const FAILED: u64 = 2;
    /// The process ended. `a`: wait status, `b`: microseconds of CPU, `c`: the most bytes it held.
    pub const ENDED: u64 = 3;
}

/// Host to a supervisor.
pub mod to_supervisor {
    /// Send signal `a` to the process group of the process.
    pub const SIGNAL: u64 = 1;
}

/// Init to host.
pub mod from_init {
    /// The session stands. `a`: the head's process id inside, `b`: 1 when init asks before files are changed.
    pub const STARTED: u64 = 1;
    /// The session could not be built. `a`: the [`Stage`](super::Stage), `b`: the error number.
    pub const FAILED: u64 = 2;
    /// The head ended and nothing of it is left. A standby may have been woken: the newest, or the one that the host named. `a`: wait status, `b`: in the lowest byte 1 when init
    /// ended it for want of memory, 2 for too many objects that the kernel counts for each user, above it microseconds of CPU, `c`: the most bytes it held.
    pub const ENDED: u64 = 3;
    /// Process `a` is protected now (`b` = 0), or is not ours to protect (`b` = error number).
    pub const PROTECTED: u64 = 4;
    /// The standby `a` was woken (`b` = 0) or is not there (`b` = error number).
    pub const WOKEN: u64 = 5;
    /// The standby `a` died by itself. `b`: wait status.
    pub const LOST: u64 = 6;
    /// A fork can be entered now (`b` = 0). Else `a`: the [`Stage`](super::Stage), `b`: the error number.
    pub const PREPARED: u64 = 7;
    /// On the socket for files: the call `a` is about to change the file whose path in the workspace follows. `b`: 0 when it may
    /// write to it, 1 when it removes it, 2 when it changes it without its contents, 3 when it
    /// gives it one more name.
    pub const CHANGING: u64 = 8;
    /// A socket that listens on the session's loopback comes as a descriptor. `a`: its place in the list of ports.
    pub const LOOPBACK_SOCKET: u64 = 9;
    /// What the look at a new fork found. `a`: 0 nothing; 1 not all of its processes could be stopped now; 2 something that it must not hold, `b`: one of
    /// [`Held`](crate::forks::inherited::Held), `c`: the number of the descriptor.
    pub const FORK_CHECKED: u64 = 10;
}

/// Between the inits of a session and its forks. A notification of the system call filter that is passed on is not one of these messages:
/// it is longer.
pub mod between_inits {
    /// To the first: the descriptor that comes along is the socket of a new init. `a`: the processes that its session may have.
    pub const REGISTER: u64 = 1;
    /// From the first: forks of the session may have `a` processes, by which its own limit must be raised.
    pub const PROCESS_LIMIT: u64 = 2;
    /// From its parent to the init of a fork: build the session. `a`: the process number that the parent session gave last, `b`: which descriptors
    /// come along. The request of the host follows.
    pub const BUILD: u64 = 3;
}

/// Host to launcher.
pub mod to_launcher {
    /// Give a mount of the directory whose path follows the message. `a`: the user id that owns it on disk, `b`: its group, `c`: the
    /// user id that it shall have in the session (as the launcher counts), or 0 for no mapping.
    pub const MOUNT: u64 = 1;
}

/// Launcher to host.
pub mod from_launcher {
    /// The zygote runs. `a`: its process id inside.
    pub const STARTED: u64 = 1;
    /// It could not be started. `a`: the [`Stage`](super::Stage), `b`: the error number.
    pub const FAILED: u64 = 2;
    /// The mount comes as a descriptor with this message.
    pub const MOUNTED: u64 = 3;
    /// The zygote ended. `a`: wait status.
    pub const ZYGOTE_ENDED: u64 = 4;
}

/// Declares the stages with their names, so that a number on the wire can be told to a person.
macro_rules! stages {
    ($($(#[$doc:meta])* $name:ident = $number:literal: $text:literal,)*) => {
        /// Where the building of a process stopped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u64)]
        pub enum Stage { $($(#[$doc])* $name = $number,)* }

        impl Stage {
            /// What was being tried, in words.
            pub fn describe(number: u64) -> &'static str {
                match number { $($number => $text,)* _ => "an unknown step" }
            }

            /// The stage that a number on the wire means.
            pub fn from_number(number: u64) -> Option<Stage> {
                match number { $($number => Some(Stage::$name),)* _ => None }
            }
        }
    };
}

stages! {
    /// Reading the request.
    Request = 1: "reading the request",
    /// `unshare` or `clone` with namespaces.
    Namespaces = 2: "making namespaces",
    /// `uid_map` and `gid_map`.
    Users = 3: "mapping user ids",
    /// `tmpfs` for the root.
    Root = 4: "making an empty root directory",
    /// A bind mount.
    Show = 5: "showing a directory of the host read-only",
    /// `pivot_root`.
    Pivot = 6: "changing the root directory",
    /// The `proc` file system.
    Proc = 7: "mounting /proc",
    /// Temporary directories.
    Temporary = 8: "mounting the temporary directories",
    /// The workspace.
    Workspace = 9: "mounting the workspace",
    /// The host name.
    HostName = 10: "setting the host name",
    /// cgroups.
    Cgroup = 11: "entering the cgroup",
    /// The fork of the head.
    Fork = 12: "forking",
    /// rlimits.
    Limits = 13: "setting resource limits",
    /// Landlock.
    Landlock = 14: "applying Landlock",
    /// Capabilities and `no_new_privs`.
    Privileges = 15: "giving up privileges",
    /// seccomp.
    Seccomp = 16: "applying the system call filter",
    /// Becoming the session's user.
    Identity = 17: "becoming the session's own user",
    /// `chdir`.
    Home = 18: "entering the workspace",
    /// `execve`.
    Execute = 19: "executing Python",
    /// An id-mapped mount.
    IdMap = 20: "mapping the owner of the workspace",
    /// A copy of a head that should have become the head of a fork.
    Copy = 21: "letting the copy of the session in",
    /// Calls of processes that do not stop.
    Calls = 23: "waiting for system calls of the session to end",
    /// The standard streams of a process, and its controlling terminal.
    Terminal = 24: "opening the standard streams",
    /// What a fork has of its parent's temporary files.
    TemporaryFiles = 25: "copying the temporary files",
    /// Sockets for the host on the session's loopback.
    Loopback = 22: "listening on the loopback",
}

/// An error with the place where it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where.
    pub stage: Stage,
    /// What the kernel said.
    pub errno: Errno,
}

impl Failure {
    /// As a message of this kind.
    pub fn to_message(self, kind: u64) -> Message {
        Message {
            kind,
            a: self.stage as u64,
            b: self.errno.0 as u64,
            c: 0,
        }
    }
}

/// Adds the place to an error.
pub trait At<T> {
    /// Says what was being tried.
    fn at(self, stage: Stage) -> core::result::Result<T, Failure>;
}

impl<T> At<T> for Result<T> {
    fn at(self, stage: Stage) -> core::result::Result<T, Failure> {
        self.map_err(|errno| Failure { stage, errno })
    }
}
