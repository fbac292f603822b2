//! What init knows of the sessions that were forked from its own, and what it allows for the next one.
//!
//! A fork is made in two halves. Init makes its namespaces with an init of its own in them (`fork_init.rs`); that code is ours. Then
//! init moves a helper of the head, whose memory may be the work of hostile code, into these namespaces (`forks/enter_namespaces.rs`): each is entered once, and
//! only while the host waits for the fork. From inside, the helper copies the head (`copy_into_fork.rs`).

use crate::init::notify::{Listener, Notification, OnExecute, give};
use crate::init::sweep::{find_upwards, wait_readable};
use crate::sys::text::{Text, hexadecimal, leading_number};
use crate::sys::{
    self, Errno, Fd, Pid, Result, clone_flags, close, each_line_at, kill, poll, reap, receive,
    signals,
};
use crate::wire::message::Message;
use core::mem::replace;

pub use crate::forks::build_request::MAX_FORK_REQUEST_BYTES;
pub use crate::forks::family::{FIRST_INIT, MAX_FORKS};
pub use crate::forks::fork_init::{Begun, Parent, begin, prepare};

/// The namespaces of a fork in the order in which they are entered, with their names in `/proc`. The first gives the rights over
/// the others.
pub const KINDS: [(usize, &core::ffi::CStr); 7] = [
    (clone_flags::NEWUSER, c"/proc/self/ns/user"),
    (clone_flags::NEWNS, c"/proc/self/ns/mnt"),
    (clone_flags::NEWPID, c"/proc/self/ns/pid"),
    (clone_flags::NEWCGROUP, c"/proc/self/ns/cgroup"),
    (clone_flags::NEWNET, c"/proc/self/ns/net"),
    (clone_flags::NEWIPC, c"/proc/self/ns/ipc"),
    (clone_flags::NEWUTS, c"/proc/self/ns/uts"),
];

/// The descriptors that a copy of the head is given when it enters a fork.
pub struct ForkFds {
    /// The namespaces, as [`KINDS`] lists them; -1 for one that was entered already or that the sessions share.
    pub namespaces: [Fd; KINDS.len()],
    /// Its channel to the host; -1, as for what follows, once it was given.
    pub channel: Fd,
    /// Its standard output.
    pub output: Fd,
    /// Its standard error.
    pub error: Fd,
    /// On which it tells its new init that it has come.
    pub report: Fd,
    /// The cgroups that it shall enter.
    pub cgroups: [Fd; 3],
}

/// What the helper tells init in registers that the kernel ignores: mostly the numbers at which it wants its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// For the report.
    pub report: Fd,
    /// For the channel.
    pub channel: Fd,
    /// For the cgroups.
    pub cgroups: [Fd; 3],
    /// For each namespace in turn.
    pub namespace: Fd,
    /// The address of [`NO_CAPABILITIES`](crate::walls::privileges::NO_CAPABILITIES) in its memory.
    pub capabilities: usize,
}

impl Hints {
    const BITS: u32 = 21;

    /// As registers.
    pub fn to_words(self) -> [usize; 5] {
        let [first, second, third] = self.cgroups.map(|fd| fd as usize & ((1 << Self::BITS) - 1));
        let cgroups = first | second << Self::BITS | third << (2 * Self::BITS);
        [
            self.report as usize,
            self.channel as usize,
            cgroups,
            self.namespace as usize,
            self.capabilities,
        ]
    }

    /// From registers.
    pub fn from_words([report, channel, cgroups, namespace, capabilities]: [u64; 5]) -> Hints {
        let part = |index: u32| (cgroups >> (index * Self::BITS) & ((1 << Self::BITS) - 1)) as Fd;
        Hints {
            report: report as Fd,
            channel: channel as Fd,
            cgroups: [part(0), part(1), part(2)],
            namespace: namespace as Fd,
            capabilities: capabilities as usize,
        }
    }
}

impl ForkFds {
    /// Closes the descriptors that were not handed over.
    pub fn close(&self) {
        let rest = [self.channel, self.output, self.error, self.report];
        for fd in rest.into_iter().chain(self.namespaces).chain(self.cgroups) {
            if fd >= 0 {
                close(fd);
            }
        }
    }
}

/// A fork whose init stands and waits for its head.
pub struct Prepared {
    /// Its init.
    pub pid: Pid,
    /// On which its init tells us that the head has come.
    pub socket: Fd,
    /// What the head will be given.
    pub fds: ForkFds,
}

impl Prepared {
    /// Ends it.
    pub fn give_up(&self) {
        let _ = kill(self.pid, signals::KILL);
        self.close();
    }

    fn close(&self) {
        close(self.socket);
        self.fds.close();
    }
}

/// The sessions that were forked from this one.
pub struct Forks {
    inits: [Pid; MAX_FORKS],
    /// How many there ever were.
    count: u32,
    begun: Option<Begun>,
    prepared: Option<Prepared>,
    /// The child of ours that has entered the prepared fork.
    helper: Option<Pid>,
}

impl Forks {
    /// None yet.
    pub fn none() -> Forks {
        Forks {
            inits: [0; MAX_FORKS],
            count: 0,
            begun: None,
            prepared: None,
            helper: None,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.inits.iter().all(|pid| *pid == 0)
    }

    /// How many of them live.
    pub fn living(&self) -> u64 {
        self.inits.iter().filter(|pid| **pid != 0).count() as u64
    }

    /// How many there ever were.
    pub fn made_so_far(&self) -> u32 {
        self.count
    }

    /// Whether the init of one waits for its request.
    pub fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Whether one is being made.
    pub fn is_preparing(&self) -> bool {
        self.prepared.is_some()
    }

    /// Whether this process is the init of one.
    pub fn made(&self, pid: Pid) -> bool {
        pid > 0 && self.inits.contains(&pid)
    }

    /// Whether a process lives in one of them, or in a fork of theirs.
    pub fn has(&self, processes: Fd, pid: Pid) -> bool {
        !self.is_empty() && find_upwards(processes, pid, |pid| self.made(pid)).is_some()
    }

    /// Notes the init of the next one. There can be too many.
    pub fn note(&mut self, begun: Begun) -> Result<Begun> {
        match self.inits.iter_mut().find(|pid| **pid == 0) {
            Some(slot) => {
                *slot = begun.pid;
                Ok(begun)
            }
            None => {
                begun.give_up();
                Err(Errno::AGAIN)
            }
        }
    }

    /// Keeps the init of the next one until the request comes.
    pub fn begin(&mut self, begun: Begun) {
        self.begun = Some(begun);
    }

    /// The init of the next one, if it was begun.
    pub fn take_begun(&mut self) -> Option<Begun> {
        self.begun.take()
    }

    /// The next one, whose init was noted, stands and waits for its head.
    pub fn expect(&mut self, prepared: Prepared) {
        self.count += 1;
        self.prepared = Some(prepared);
    }

    /// Where the one that is being made tells how it goes.
    pub fn news(&self) -> Fd {
        self.prepared
            .as_ref()
            .map_or(-1, |prepared| prepared.socket)
    }

    /// The prepared fork has told that it lives, or it is gone. In both cases no process may enter it any more.
    pub fn settle(&mut self) {
        const HELPER_TIMEOUT_MS: u64 = 1000;
        self.end_helper(HELPER_TIMEOUT_MS);
        if let Some(prepared) = self.prepared.take() {
            let mut bytes = [0; Message::SIZE];
            let lives = receive(prepared.socket, &mut bytes).is_ok_and(|told| told.bytes > 0);
            if lives {
                prepared.close();
            } else {
                prepared.give_up();
            }
        }
    }

    /// Ends the one that is being made. One that told already that it lives is made, though we may not have listened yet.
    pub fn cancel(&mut self) {
        self.cancel_begun();
        if wait_readable(self.news(), 0) {
            return self.settle();
        }
        self.end_helper(0);
        if let Some(prepared) = self.prepared.take() {
            prepared.give_up();
        }
    }

    /// Ends the init that waits for its request, if there is one: no request comes.
    pub fn cancel_begun(&mut self) {
        if let Some(begun) = self.begun.take() {
            begun.give_up();
        }
    }

    /// Notes that a child of ours has ended: the init of a fork, or the helper.
    pub fn forget(&mut self, pid: Pid) {
        self.helper = self.helper.filter(|helper| *helper != pid);
        if let Some(begun) = self.begun.take_if(|begun| begun.pid == pid) {
            begun.close();
        }
        if let Some(slot) = self.inits.iter_mut().find(|init| pid > 0 && **init == pid) {
            *slot = 0;
        }
    }

    /// Whether a prepared fork waits for its head, and no process has entered it yet.
    pub fn is_enterable(&self) -> bool {
        self.namespace(0).is_some()
    }

    /// A namespace of the prepared fork, by its place in [`KINDS`]; `None` if it was entered already, or if the fork shares its parent's.
    pub fn namespace(&self, index: usize) -> Option<Fd> {
        let prepared = self.prepared.as_ref()?;
        Some(prepared.fds.namespaces[index]).filter(|fd| *fd >= 0)
    }

    /// Notes that a namespace was entered. It cannot be entered again.
    pub fn namespace_entered(&mut self, index: usize) {
        if let Some(prepared) = &mut self.prepared {
            close(replace(&mut prepared.fds.namespaces[index], -1));
        }
    }

    /// Gives the helper the descriptor of a namespace that it is about to enter, at the second namespace all other descriptors too. Not at the
    /// first: a process that has threads cannot enter that one.
    pub fn hand_over(
        &mut self,
        listener: Listener,
        notification: &Notification,
        namespace: Fd,
        hints: &Hints,
    ) -> Result<()> {
        let is_inside = !self.is_enterable();
        let give = |descriptor: Fd, target: Fd, on_execute| {
            if target > 0 {
                give(listener, notification, descriptor, target, on_execute)
            } else {
                Err(Errno::INVAL)
            }
        };
        if is_inside && let Some(prepared) = &mut self.prepared {
            let ForkFds {
                channel,
                output,
                error,
                report,
                cgroups,
                ..
            } = &mut prepared.fds;
            let mut all = [
                (channel, hints.channel, OnExecute::Closed),
                (report, hints.report, OnExecute::Closed),
                (output, 1, OnExecute::Kept),
                (error, 2, OnExecute::Kept),
            ];
            for (descriptor, target, on_execute) in &mut all {
                hand_once(descriptor, |fd| give(fd, *target, *on_execute))?;
            }
            for (cgroup, target) in cgroups.iter_mut().zip(hints.cgroups) {
                hand_once(cgroup, |fd| give(fd, target, OnExecute::Closed))?;
            }
        }
        give(namespace, hints.namespace, OnExecute::Closed)
    }

    /// Notes the child of ours that has entered the prepared fork.
    pub fn helper_entered(&mut self, pid: Pid) {
        self.helper = Some(pid);
    }

    /// Notes that the helper has ended and was reaped.
    pub fn forget_helper(&mut self) {
        self.helper = None;
    }

    /// Ends the helper if it does not end by itself within so many milliseconds. It is in the namespaces of the fork, but in the process
    /// namespace of its parent, and would connect the two.
    fn end_helper(&mut self, timeout_ms: u64) {
        let Some(pid) = self.helper.take() else {
            return;
        };
        let start = sys::monotonic_milliseconds();
        while let Ok(None) = reap(pid, false) {
            if sys::monotonic_milliseconds() - start >= timeout_ms {
                let _ = kill(pid, signals::KILL);
                return;
            }
            poll(&mut [], 1);
        }
    }
}

/// Gives a descriptor to the helper, and closes our own. Does nothing if that was done before.
fn hand_once(descriptor: &mut Fd, give: impl FnOnce(Fd) -> Result<()>) -> Result<()> {
    if *descriptor < 0 {
        return Ok(());
    }
    give(*descriptor)?;
    close(replace(descriptor, -1));
    Ok(())
}

/// What a process may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    capabilities: u64,
    no_new_privileges: bool,
    filtered: bool,
}

impl Credentials {
    /// It has no capabilities.
    pub fn is_powerless(&self) -> bool {
        self.capabilities == 0
    }

    /// It has none, can get none, and its system calls are filtered.
    pub fn is_confined(&self) -> bool {
        self.is_powerless() && self.no_new_privileges && self.filtered
    }

    fn note(&mut self, line: &[u8]) {
        let number = |name: &[u8]| leading_number(line.strip_prefix(name)?.trim_ascii_start());
        if line.starts_with(b"Cap") {
            let digits = line.rsplit(|byte| *byte == b'\t').next().unwrap_or(b"");
            // What cannot be read counts as everything.
            self.capabilities |= hexadecimal(digits).unwrap_or(u64::MAX);
        } else if let Some(set) = number(b"NoNewPrivs:") {
            self.no_new_privileges = set == 1;
        } else if let Some(mode) = number(b"Seccomp:") {
            self.filtered = mode == 2;
        }
    }
}

/// What a process may do, in the kernel's word.
pub fn credentials_of(processes: Fd, pid: Pid) -> Result<Credentials> {
    let path = Text::<32>::new(format_args!("{pid}/status"))?;
    let mut credentials = Credentials::default();
    each_line_at(processes, path.as_c_str(), |line| credentials.note(line))?;
    Ok(credentials)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{packet_pair, send};

    fn credentials(status: &str) -> Credentials {
        let mut credentials = Credentials::default();
        for line in status.lines() {
            credentials.note(line.as_bytes());
        }
        credentials
    }

    /// A fork with a process in the place of its init, and the end of their socket that the process would have.
    fn prepared(init: &std::process::Child) -> (Forks, Fd) {
        let (socket, told) = packet_pair().unwrap();
        let fds = ForkFds {
            namespaces: [-1; KINDS.len()],
            channel: -1,
            output: -1,
            error: -1,
            report: -1,
            cgroups: [-1; 3],
        };
        let mut forks = Forks::none();
        let pid = init.id() as Pid;
        forks.expect(Prepared { pid, socket, fds });
        (forks, told)
    }

    #[test]
    fn only_a_fork_that_has_not_told_that_it_lives_is_cancelled() {
        for lives in [false, true] {
            let mut init = std::process::Command::new("sleep")
                .arg("60")
                .spawn()
                .unwrap();
            let (mut forks, told) = prepared(&init);
            if lives {
                send(told, &[1], &[]).unwrap();
            }
            forks.cancel();
            assert!(!forks.is_preparing());
            if lives {
                assert_eq!(init.try_wait().unwrap(), None);
                init.kill().unwrap();
            }
            init.wait().unwrap();
            close(told);
        }
    }

    #[test]
    fn the_numbers_of_descriptors_come_through_registers() {
        let hints = Hints {
            report: 5,
            channel: 1_048_575,
            cgroups: [6, 1_048_574, 7],
            namespace: 8,
            capabilities: 0x7FFF_0000_1000,
        };
        assert_eq!(
            Hints::from_words(hints.to_words().map(|word| word as u64)),
            hints
        );
    }

    #[test]
    fn one_capability_in_any_set_is_too_much() {
        let of = |inheritable: &str, bounding: &str| {
            credentials(&std::format!(
                "Name:\tpython\nCapInh:\t{inheritable}\nCapPrm:\t0000000000000000\nCapBnd:\t{bounding}\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1"
            ))
        };
        let none = "0000000000000000";
        assert!(of(none, none).is_confined());
        assert!(!of(none, "0000000000000001").is_confined());
        assert!(!of("8000000000000000", none).is_confined());
        assert!(!of(none, "what").is_confined());
        assert!(!credentials("CapPrm:\t0000000000000000").is_confined());
    }
}
