//! Stopping all processes of a session for a while, from outside.

use super::proc_entry::ProcEntry;
use super::session_processes::SessionProcesses;
use cellblock_native::sys::{ProcessStat, nr, syscall};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;
use std::{fs, io};

/// The processes of a session that were stopped. Those that stood still before are not among them, and stay as they were.
#[derive(Debug, Default)]
pub struct Paused {
    /// By their ids, only to tell them apart. Signals go through the descriptors: another process can have the id by then.
    stopped: HashMap<u32, ProcessDescriptor>,
}

impl SessionProcesses {
    /// Stops all processes of the session, init last: a system call that waits for init's answer cannot be stopped before the answer
    /// has come. A process that is forked meanwhile is found in the next round, and there is a last round because every process
    /// that is found is stopped.
    ///
    /// Init goes on where the session has forks: it passes on to their inits what the kernel asks about their calls. It does nothing else then.
    pub fn pause_all(self) -> io::Result<Paused> {
        const MAX_ROUNDS: usize = 5000;
        const PAUSE: Duration = Duration::from_millis(1);
        let mut paused = Paused::default();
        for _ in 0..MAX_ROUNDS {
            let is_needed = |pid: u32| pid == self.init() && self.has_forks();
            let waits =
                |pid: u32| paused.stopped.contains_key(&pid) && waits_for_stopped_child(pid);
            let stops = |pid: &u32| !is_still(*pid) && !is_needed(*pid) && !waits(*pid);
            let running: Vec<u32> = self.ids().filter(stops).collect();
            let is_init_alone = running == [self.init()];
            let stops_now = |pid: &u32| is_init_alone || *pid != self.init();
            let wanted: Vec<u32> = running.iter().copied().filter(stops_now).collect();
            for (pid, process) in self.hold(&wanted) {
                // A process that is gone needs no signal.
                if process.signal(Signal::STOP).is_ok() {
                    paused.stopped.insert(pid, process);
                }
            }
            if running.is_empty() {
                return Ok(paused);
            }
            std::thread::sleep(PAUSE);
        }
        paused.resume();
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Kills all processes but init and the `spared`, which are given by their ids inside. What is started meanwhile is left to init, which sees
    /// that the head has ended.
    ///
    /// Init would have to wait for a processor before it ends them, while they write. And a call that writes a large file ends at once. Each process
    /// is killed as soon as it is found, with as little work as possible: those that are left keep this thread from a processor. Children of a
    /// process that was killed become children of init, and are found in the next round.
    pub fn kill_all_but(self, spared: &[u32]) {
        const MAX_ROUNDS: usize = 4;
        let depth = ProcEntry::of(self.init()).namespace_ids().len();
        let is_ended = |pid: u32| {
            let ids = ProcEntry::of(pid).namespace_ids();
            // Forks live deeper.
            ids.len() == depth && ids.last().is_some_and(|inside| !spared.contains(inside))
        };
        let mut killed = HashSet::new();
        for _ in 0..MAX_ROUNDS {
            let Ok(init) = ProcessDescriptor::open(self.init()) else {
                return;
            };
            if !self.is_there() {
                return;
            }
            let known = killed.len();
            let mut generation = init.children_of(self.init());
            while !generation.is_empty() {
                for (pid, process) in &generation {
                    if is_ended(*pid) {
                        // A process that is gone needs no signal.
                        let _ = process.signal(Signal::KILL);
                        killed.insert(*pid);
                    }
                }
                let children = generation.iter();
                let children = children.flat_map(|(pid, process)| process.children_of(*pid));
                generation = children.collect();
            }
            if killed.len() == known {
                return;
            }
        }
    }

    /// Descriptors of those of the processes that belong to the session. They are listed again after they were opened: an id that is
    /// still one of the session's then was not given to another process before, or the descriptor is that of a process which has ended.
    fn hold(self, pids: &[u32]) -> Vec<(u32, ProcessDescriptor)> {
        let opened: Vec<(u32, ProcessDescriptor)> = pids
            .iter()
            .filter_map(|pid| Some((*pid, ProcessDescriptor::open(*pid).ok()?)))
            .collect();
        let listed: HashSet<u32> = self.ids().collect();
        // Of init, everything else is found.
        let is_session_there = self.is_there();
        let is_own = |(pid, _): &(u32, ProcessDescriptor)| is_session_there && listed.contains(pid);
        opened.into_iter().filter(is_own).collect()
    }
}

impl Paused {
    /// Lets the stopped processes go on. Init is their parent and goes on like the others.
    pub fn resume(self) {
        for process in self.stopped.values() {
            // A process that has ended meanwhile needs no signal.
            let _ = process.signal(Signal::CONT);
        }
    }
}

/// A process that is meant for good: when it ends, its id can become that of another process, and the descriptor does not.
#[derive(Debug)]
struct ProcessDescriptor(OwnedFd);

impl ProcessDescriptor {
    fn open(pid: u32) -> io::Result<ProcessDescriptor> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(ProcessDescriptor(pidfd_open(pid, PidfdFlags::empty())?))
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.0, signal)?)
    }

    /// Whether the process has its id still. It may have ended, but its parent has not waited for it.
    fn is_there(&self) -> bool {
        const NO_SIGNAL: usize = 0;
        let arguments = [self.0.as_raw_fd() as usize, NO_SIGNAL, 0, 0];
        // SAFETY: the call takes numbers, and no details of a signal.
        unsafe { syscall(nr::PIDFD_SEND_SIGNAL, arguments) }.is_ok()
    }

    /// The children of this process, whose id is `pid`, with their descriptors. They are listed again after they were opened: see
    /// [`hold`](SessionProcesses::hold).
    fn children_of(&self, pid: u32) -> Vec<(u32, ProcessDescriptor)> {
        let open = |child| Some((child, ProcessDescriptor::open(child).ok()?));
        let listed = || ProcEntry::of(pid).children().into_iter();
        let mut opened: Vec<_> = listed().filter_map(open).collect();
        if !opened.is_empty() {
            let listed: HashSet<u32> = listed().collect();
            let is_there = self.is_there();
            opened.retain(|(child, _)| is_there && listed.contains(child));
        }
        opened
    }
}

/// Whether a process is stopped or has ended.
fn is_still(pid: u32) -> bool {
    state_of(pid).is_none_or(|state| b"TtZX".contains(&state))
}

/// Whether a process waits for a child that was stopped between `vfork` and the start of its program. It stops itself when it comes back
/// from that, and cannot run before.
fn waits_for_stopped_child(pid: u32) -> bool {
    let is_stopped = |child: u32| state_of(child) == Some(b'T');
    state_of(pid) == Some(b'D') && ProcEntry::of(pid).children().into_iter().any(is_stopped)
}

/// The letter for the state of a process, as in `proc(5)`.
fn state_of(pid: u32) -> Option<u8> {
    let text = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    ProcessStat::parse(&text).map(|stat| stat.state())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{getpid, kill_process, set_child_subreaper};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command};
    use std::time::Instant;

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A new process with this id. The kernel can be told which id is next, but others may take it first.
    fn sleeper_with_id(pid: u32) -> Option<Child> {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(60) {
            fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
            let child = sleeper();
            if child.id() == pid {
                return Some(child);
            }
            end(child);
        }
        None
    }

    #[test]
    fn all_processes_below_the_first_are_killed_but_for_the_spared() {
        let script = "sleep 600 & sleep 600 & (sleep 600; true) & wait";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        // The children of a process that has ended become children of the first, as they become children of a session's init.
        // SAFETY: one system call, which allocates nothing.
        unsafe { command.pre_exec(|| Ok(set_child_subreaper(Some(getpid()))?)) };
        let mut first = command.spawn().unwrap();
        let processes = SessionProcesses::below(first.id());
        let begin = Instant::now();
        while processes.ids().count() < 5 && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let running: Vec<u32> = processes.ids().filter(|pid| *pid != first.id()).collect();
        assert_eq!(running.len(), 4);
        let spared = ProcEntry::of(first.id()).children()[0];
        let inside = *ProcEntry::of(spared).namespace_ids().last().unwrap();
        processes.kill_all_but(&[inside]);
        let is_done = || {
            let lives = |pid: &&u32| !is_still(**pid);
            running.iter().filter(lives).eq([&spared])
        };
        while !is_done() && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(is_done());
        processes.kill_all_but(&[]);
        first.wait().unwrap();
    }

    #[test]
    fn a_process_with_the_id_of_one_that_has_ended_gets_no_signal() {
        let paused = sleeper();
        let pid = paused.id();
        let stopped = HashMap::from([(pid, ProcessDescriptor::open(pid).unwrap())]);
        end(paused);
        let Some(other) = sleeper_with_id(pid) else {
            eprintln!("skipped: only a privileged process chooses the id of the next one");
            return;
        };
        let own = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        kill_process(own, Signal::STOP).unwrap();
        while !is_still(pid) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Paused { stopped }.resume();
        // The signal would have come at once.
        std::thread::sleep(Duration::from_millis(50));
        assert!(is_still(pid), "it goes on");
        end(other);
    }
}
