//! The processes of one session, found and killed from outside.

use super::common::{eventually, in_process_namespace, process, process_namespace};
use cellblock_sandbox::ProcEntry;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::os::fd::OwnedFd;
use std::time::Duration;
use std::{fs, thread};

/// Who can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Head,
    NewestStandby,
    /// Counted from the oldest.
    Standby(usize),
    EveryStandby,
    Init,
    Zygote,
}

/// A session's process 1, by which the others are found.
#[derive(Clone, Debug)]
pub(crate) struct Processes {
    init: u32,
    /// When init started: numbers of processes and of namespaces are used again.
    started: u64,
    namespace: String,
}

/// A process that will be killed, and no other that has its number by then.
struct Victim(OwnedFd);

/// Processes of a session that were found, to be killed at once when the moment comes.
#[derive(Default)]
pub(crate) struct Victims {
    victims: Vec<Victim>,
    /// Who is among them.
    pub(crate) takes_init: bool,
    pub(crate) takes_head: bool,
    pub(crate) takes_standbys: bool,
    pub(crate) takes_every_standby: bool,
}

impl Processes {
    /// `namespace` is what a cell reads at `/proc/self/ns/pid`.
    pub(crate) fn of(namespace: &str) -> Processes {
        let inside = in_process_namespace(namespace);
        let is_outside = |pid: u32| inside.iter().all(|process| process.pid != pid);
        let init = inside.iter().find(|process| is_outside(process.parent));
        Processes::below(init.expect("the session has no process 1").pid)
    }

    fn below(init: u32) -> Processes {
        Processes {
            init,
            started: Seen::of(init).map_or(0, |seen| seen.started),
            namespace: process_namespace(init).unwrap_or_default(),
        }
    }

    /// What is left of the session, as text for a message.
    pub(crate) fn described(&self) -> String {
        let inside = in_process_namespace(&self.namespace);
        let line = |process: &super::common::Process| {
            let role = Seen::of(process.pid).map_or("gone", |seen| seen.role(self.init));
            format!("{} {} {}", process.pid, process.state, role)
        };
        inside.iter().map(line).collect::<Vec<_>>().join(", ")
    }

    /// Process 1 of a namespace is the last one to go.
    pub(crate) fn are_gone(&self) -> bool {
        Seen::of(self.init).is_none_or(|seen| seen.started != self.started)
    }

    /// Other sessions of the same launcher. One that is not born yet has no head that listens to signals.
    pub(crate) fn neighbours(&self) -> Vec<Processes> {
        let depth = Seen::of(self.init).map_or(0, |seen| seen.numbers);
        let is_init = |pid: &u32| {
            *pid != self.init && Seen::of(*pid).is_some_and(|seen| seen.numbers == depth)
        };
        let inits = children_of(process(self.init).map_or(0, |init| init.parent));
        let is_born = |init: &u32| {
            let mut children = children_of(*init).into_iter().filter_map(Seen::of);
            children.any(|child| child.role(*init) == "head")
        };
        let inits = inits.into_iter().filter(is_init).filter(is_born);
        inits.map(Processes::below).collect()
    }

    /// How much the kernel would rather kill the processes with this role than others when memory runs out.
    pub(crate) fn scores(&self, wanted: &str) -> Vec<i32> {
        let score = |pid: u32| -> Option<i32> {
            let text = fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).ok()?;
            text.trim().parse().ok()
        };
        let seen = children_of(self.init).into_iter().filter_map(Seen::of);
        seen.filter(|seen| seen.role(self.init) == wanted)
            .filter_map(|seen| score(seen.pid))
            .collect()
    }

    /// Finds those who play these roles now.
    pub(crate) fn find(&self, roles: &[Role]) -> Victims {
        let mut found = Victims::default();
        let children = children_of(self.init);
        let is = |wanted: &str| {
            let seen = children.iter().filter_map(|pid| Seen::of(*pid));
            let mut pids: Vec<(u64, u32)> = seen
                .filter(|seen| seen.role(self.init) == wanted)
                .map(|seen| (seen.started, seen.pid))
                .collect();
            pids.sort_unstable();
            pids.into_iter().map(|(_, pid)| pid).collect::<Vec<_>>()
        };
        let standbys = is("standby");
        let mut chosen: Vec<u32> = Vec::new();
        for role in roles {
            match role {
                Role::Head => chosen.extend(is("head")),
                Role::NewestStandby => chosen.extend(standbys.last()),
                Role::Standby(n) => chosen.extend(standbys.get(*n)),
                Role::EveryStandby => chosen.extend(&standbys),
                Role::Init => chosen.push(self.init),
                Role::Zygote => chosen.extend(zygote_beside(self.init)),
            }
        }
        chosen.sort_unstable();
        chosen.dedup();
        found.takes_init = chosen.contains(&self.init);
        let is_chosen = |pid: &u32| chosen.contains(pid);
        found.takes_head = roles.contains(&Role::Head);
        found.takes_standbys = standbys.iter().any(is_chosen);
        found.takes_every_standby = standbys.iter().all(is_chosen);
        found.victims = chosen.into_iter().filter_map(Victim::new).collect();
        found
    }
}

impl Victims {
    /// Kills them all.
    pub(crate) fn kill(&self) {
        for Victim(handle) in &self.victims {
            // It may have died already.
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
    }

    /// Lets them stand still for a while, as a busy machine would.
    pub(crate) fn hold(&self, time: Duration) {
        for signal in [Signal::STOP, Signal::CONT] {
            for Victim(handle) in &self.victims {
                // It may have died already.
                let _ = pidfd_send_signal(handle, signal);
            }
            if signal == Signal::STOP {
                thread::sleep(time);
            }
        }
    }

    /// Kills them all and waits until they are dead.
    pub(crate) fn bury(&self) {
        self.kill();
        let is_dead = |Victim(handle): &Victim| {
            let mut wanted = [PollFd::new(handle, PollFlags::IN)];
            poll(&mut wanted, Some(&Timespec::default())).is_ok_and(|ready| ready == 1)
        };
        eventually("who was killed is dead", || {
            self.victims.iter().all(is_dead)
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.victims.len()
    }
}

impl Victim {
    fn new(pid: u32) -> Option<Victim> {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        pidfd_open(pid, PidfdFlags::empty()).ok().map(Victim)
    }
}

/// What `/proc` tells of a process.
struct Seen {
    pid: u32,
    started: u64,
    /// Its number in each namespace, from the outermost in.
    numbers: usize,
    blocks_signals: bool,
    /// It was killed, and the kernel takes it apart.
    is_leaving: bool,
}

impl Seen {
    fn of(pid: u32) -> Option<Seen> {
        const KILL: u64 = 1 << 8;
        const EXITING: u64 = 0x4;
        let process = ProcEntry::of(pid);
        let (stat, status) = (process.stat()?, process.status());
        let blocked = status.signals("SigBlk")?;
        let pending = status.signals("SigPnd")? | status.signals("ShdPnd")?;
        Some(Seen {
            pid,
            started: stat.started,
            is_leaving: pending & KILL != 0 || stat.flags & EXITING != 0,
            numbers: process.namespace_ids().len(),
            blocks_signals: blocked.count_ones() > 32,
        })
    }

    /// A standby listens to no signal but the one that it waits for.
    fn role(&self, init: u32) -> &'static str {
        match self.pid {
            pid if pid == init => "init",
            _ if self.is_leaving => "leaving",
            _ if self.blocks_signals => "standby",
            _ => "head",
        }
    }
}

fn children_of(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    list.unwrap_or_default()
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// The zygote is a child of the launcher, as the inits of all sessions are that are no forks. Only these are in a process
/// namespace of their own.
fn zygote_beside(init: u32) -> Option<u32> {
    let outside = Seen::of(std::process::id())?.numbers;
    let depth = |pid: u32| Seen::of(pid).map_or(0, |seen| seen.numbers);
    let mut launcher = init;
    while depth(launcher) > outside + 1 {
        launcher = process(launcher)?.parent;
    }
    let children = children_of(launcher).into_iter();
    children.into_iter().find(|pid| depth(*pid) == outside + 1)
}
