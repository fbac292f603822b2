//! What this machine can enforce, found out by trying each mechanism in a child of its own.

use crate::launch::launcher;
use crate::sys::{
    self, Errno, Forked, Pid, clone_flags, clone_process, exit, mount_flags, reap, send,
};
use crate::walls::landlock;
use crate::walls::mounts;
use crate::walls::privileges;
use crate::walls::seccomp;
use crate::walls::seccomp::{
    Blocks, Changes, Forks, Ids, Ipc, KernelMemory, Metadata, Rules, Signals, Sockets, Starts,
    UserObjects,
};
use crate::walls::users::{Mapping, map_users};
use crate::wire::message::Message;

/// The mechanisms, in the order of the report; each number is `kind` of its message.
pub mod mechanisms {
    /// A user namespace with one id mapped.
    pub const USERS: u64 = 1;
    /// A mount namespace with a root of our own.
    pub const MOUNTS: u64 = 2;
    /// A process namespace with its own `/proc`.
    pub const PROCESSES: u64 = 3;
    /// A network namespace.
    pub const NETWORK: u64 = 4;
    /// An IPC namespace.
    pub const IPC: u64 = 5;
    /// A host name of its own.
    pub const HOSTNAME: u64 = 6;
    /// A cgroup namespace.
    pub const CGROUP: u64 = 7;
    /// Landlock; `b` is its version.
    pub const LANDLOCK: u64 = 8;
    /// A system call filter.
    pub const SECCOMP: u64 = 9;
    /// A system call filter that asks another process.
    pub const NOTIFY: u64 = 10;
    /// The end of the report.
    pub const END: u64 = 11;
}

/// Writes one message for each mechanism to the host: `a` is 0 or an error number.
pub fn run() -> ! {
    use clone_flags as flags;
    use mechanisms::*;
    say(USERS, child(|| enter(0)), 0);
    say(
        MOUNTS,
        child(|| enter(flags::NEWNS).and_then(|()| own_root())),
        0,
    );
    say(
        PROCESSES,
        child(|| enter(flags::NEWNS | flags::NEWPID).and_then(|()| own_proc())),
        0,
    );
    say(NETWORK, child(|| enter(flags::NEWNET)), 0);
    say(IPC, child(|| enter(flags::NEWIPC)), 0);
    say(
        HOSTNAME,
        child(|| enter(flags::NEWUTS).and_then(|()| sys::set_host_name(b"cellblock"))),
        0,
    );
    say(CGROUP, child(|| enter(flags::NEWCGROUP)), 0);
    say(
        LANDLOCK,
        landlock::version().map(drop),
        landlock::version().unwrap_or(0).into(),
    );
    say(SECCOMP, child(|| filter(Signals::Free)), 0);
    say(NOTIFY, child(|| filter(Signals::NotifyInit)), 0);
    say(END, Ok(()), 0);
    exit(0)
}

fn say(kind: u64, outcome: sys::Result<()>, b: u64) {
    let errno = outcome.err().map_or(0, |error| error.0 as u64);
    let _ = send(
        launcher::descriptors::CONTROL,
        &Message {
            kind,
            a: errno,
            b,
            c: 0,
        }
        .to_bytes(),
        &[],
    );
}

/// Runs `attempt` in a child and brings its error back as the exit code.
fn child(attempt: impl FnOnce() -> sys::Result<()>) -> sys::Result<()> {
    // SAFETY: the child stays native.
    match unsafe { clone_process(0) }? {
        Forked::Child => exit(attempt().err().map_or(0, |error| error.0)),
        Forked::Parent(pid) => verdict(pid),
    }
}

fn verdict(pid: Pid) -> sys::Result<()> {
    match reap(pid, true)?.map_or(0x100, |ended| ended.status) {
        0 => Ok(()),
        status if status & 0x7F == 0 => Err(Errno(status >> 8 & 0xFF)),
        _ => Err(Errno::PERM),
    }
}

/// As a session does it, also for root: through a user namespace.
fn enter(namespaces: usize) -> sys::Result<()> {
    let (user, group) = sys::effective_ids();
    sys::unshare(clone_flags::NEWUSER | namespaces)?;
    let only = |outside| Mapping {
        inside: 0,
        outside,
        count: 1,
    };
    map_users(sys::own_pid(), only(user), only(group))
}

fn own_root() -> sys::Result<()> {
    mounts::make_private()?;
    sys::mount(c"cellblock", c"/tmp", c"tmpfs", mount_flags::NOSUID, c"")?;
    sys::mkdir(c"/tmp/.host", 0o700)?;
    sys::pivot_root(c"/tmp", c"/tmp/.host")?;
    sys::unmount(c"/.host", mount_flags::DETACH)
}

fn own_proc() -> sys::Result<()> {
    child(|| {
        mounts::make_private()?;
        sys::mount(
            c"proc",
            c"/proc",
            c"proc",
            mount_flags::NOSUID | mount_flags::NODEV | mount_flags::NOEXEC,
            c"hidepid=4",
        )
    })
}

fn filter(signals: Signals) -> sys::Result<()> {
    privileges::no_new_privileges()?;
    let rules = Rules {
        sockets: Sockets::InEmptyNamespace,
        signals,
        memory: KernelMemory::CountedByInit,
        objects: UserObjects::NotifyInit,
        starts: Starts::Free,
        forks: Forks::Forbidden,
        ipc: Ipc::Forbidden,
        changes: Changes::Free,
        blocks: Blocks::ByWriting,
        metadata: Metadata::Free,
        ids: Ids::Free,
    };
    seccomp::install(rules).map(drop)
}
