//! Stopping all processes of a session for a while, from outside.

use super::session_processes::SessionProcesses;
use cellblock_native::sys::ProcessStat;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashSet;
use std::time::Duration;
use std::{fs, io};

/// The processes of a session that were stopped. Those that stood still before are not among them, and stay as they were.
#[derive(Debug, Default)]
pub struct Paused {
    stopped: HashSet<u32>,
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
            let stops = |pid: &u32| !is_still(*pid) && !is_needed(*pid);
            let running: Vec<u32> = self.ids().filter(stops).collect();
            let is_init_alone = running == [self.init()];
            for pid in &running {
                if is_init_alone || *pid != self.init() {
                    signal(*pid, Signal::STOP);
                    paused.stopped.insert(*pid);
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
}

impl Paused {
    /// Lets the stopped processes go on. Init is their parent and goes on like the others.
    pub fn resume(self) {
        for pid in self.stopped {
            signal(pid, Signal::CONT);
        }
    }
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // A process that is gone needs no signal.
        let _ = kill_process(pid, signal);
    }
}

/// Whether a process is stopped, or is no process any more.
fn is_still(pid: u32) -> bool {
    let text = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    ProcessStat::parse(&text).is_none_or(|stat| b"TtZX".contains(&stat.state()))
}
