//! Moves a process of the session into the namespaces of a fork, without letting it run there with capabilities.
//!
//! A process that enters a user namespace has every capability in it, until it gives them up. The process that enters has the memory
//! of a head: hostile code may have written it, and other processes may be writing it now. So this process does not run meanwhile. Init, its
//! parent, traces it and makes the system calls in its place. For each call, init sets all registers and lets the process run **one
//! instruction**. If memory was changed and the instruction makes no call, then nothing was called, the process is stopped again,
//! and init ends it.
//!
//! Init relies on two things only, both of them the kernel's word. Each `setns` is reported to init by the filter before it is
//! made. And before the process runs again, `/proc` says that it has no capability left. Results of the other calls prove nothing: memory, or one
//! more filter of the process's own, can have faked them.

use crate::forks::fork::credentials_of;
use crate::init::notify::Notification;
use crate::init::stopped::is_runnable;
use crate::sys::text::{Text, leading_number};
use crate::sys::trace::{self, Progress, Registers, Waited};
use crate::sys::{
    Errno, Fd, Pid, Result, each_line_at, kill, monotonic_milliseconds, nr, own_pid, signals,
    wait_for_child,
};
use crate::walls::privileges::{NO_ROOT_LOCKED, options};

/// How often a call is begun again when signals come in between.
pub const MAX_ATTEMPTS: usize = 100;

/// How long the entering may take altogether, in milliseconds. It takes less than one where processors are free. Where they are not, each of
/// some hundred turns of init and the process may wait for one. Init does nothing else until then.
const ENTERING_TIMEOUT_MS: u64 = 25_000;
/// How long the process may take for its next step, unless it waits for a processor.
const STEP_TIMEOUT_MS: u64 = 2_000;
/// How often init looks whether the process still waits for a processor.
const LOOK_PERIOD_MS: u64 = 100;

/// The time at which the whole entering of a process must be over.
#[derive(Clone, Copy)]
pub struct Deadline {
    processes: Fd,
    pid: Pid,
    end: u64,
}

impl Deadline {
    /// The deadline of a process that begins now. `processes` is a directory of `/proc` that shows it.
    pub fn of(processes: Fd, pid: Pid) -> Deadline {
        Deadline {
            processes,
            pid,
            end: monotonic_milliseconds() + ENTERING_TIMEOUT_MS,
        }
    }

    /// Begins to wait for the next step of the process.
    pub fn step(self) -> TimedStep {
        TimedStep {
            deadline: self,
            start: monotonic_milliseconds(),
        }
    }
}

/// A step of the process that init waits for.
#[derive(Clone, Copy)]
pub struct TimedStep {
    deadline: Deadline,
    start: u64,
}

impl TimedStep {
    /// For how many milliseconds init may wait before it asks again; an error when the process has had its time.
    pub fn left(self) -> Result<u64> {
        let Deadline {
            processes,
            pid,
            end,
        } = self.deadline;
        let now = monotonic_milliseconds();
        let in_time = match STEP_TIMEOUT_MS.saturating_sub(now - self.start) {
            0 if is_runnable(processes, pid) => LOOK_PERIOD_MS,
            left => left,
        };
        match in_time.min(end.saturating_sub(now)) {
            0 => Err(Errno::AGAIN),
            left => Ok(left),
        }
    }
}

/// Whether processes of the session may look into the head of its fork.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// As into the head of the session: every process that could do harm is parted from the fork by Landlock.
    LikeParent = 0,
    /// No: the session has processes beside its head, and nothing parts those from the fork.
    Closed = 1,
}

/// A traced process that is stopped in a system call of its own.
pub struct StoppedCaller {
    pid: Pid,
    deadline: Deadline,
    own: Registers,
}

impl StoppedCaller {
    /// Stops a traced child of ours, which waits for an answer to `notification`.
    pub fn in_call(
        processes: Fd,
        pid: Pid,
        notification: &Notification,
        deadline: Deadline,
    ) -> Result<StoppedCaller> {
        // If init did not trace the process, the kernel would not report the stop to init.
        if tracer_of(processes, pid)? != own_pid() {
            return Err(Errno::PERM);
        }
        kill(pid, signals::STOP)?;
        wait_for_stop(pid, deadline)?;
        let own = Registers::of(pid)?;
        if own.are_interrupted_in(notification.number(), notification.instruction()) {
            Ok(StoppedCaller { pid, deadline, own })
        } else {
            Err(Errno::PROTO)
        }
    }

    /// The id of the process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Lets the process begin a system call. It stops again when the call returns.
    pub fn begin(&self, number: usize, arguments: [usize; 2]) -> Result<Begun> {
        let before = self.own.before_call(number, arguments);
        before.set(self.pid)?;
        trace::step(self.pid)?;
        Ok(Begun {
            pid: self.pid,
            deadline: self.deadline,
            before,
        })
    }

    /// Makes a system call that the filter does not report.
    fn call(&self, number: usize, arguments: [usize; 2]) -> Result<usize> {
        for _ in 0..MAX_ATTEMPTS {
            let begun = self.begin(number, arguments)?;
            begun.wait()?;
            if let Some(returned) = begun.returned()? {
                return returned;
            }
        }
        Err(Errno::AGAIN)
    }

    /// Opens the memory and the `/proc` entries of the process to init, and to the rest of the session. They share the memory anyway.
    pub fn show(&self) -> Result<()> {
        self.prctl(options::SET_DUMPABLE, 1)
    }

    /// Closes the memory and the `/proc` entries of the process to the rest of the session.
    pub fn hide(&self) -> Result<()> {
        self.prctl(options::SET_DUMPABLE, 0)
    }

    /// Gives up every capability for good, and checks that none is left. `none` is the address of an empty set of capabilities in the
    /// memory of the process.
    pub fn drop_capabilities(&self, processes: Fd, none: usize) -> Result<()> {
        const HEADER_BYTES: usize = 8;
        for capability in 0..64 {
            match self.prctl(options::DROP_BOUNDING, capability) {
                Ok(()) => {}
                // The kernel has no more capabilities than that.
                Err(Errno::INVAL) => break,
                Err(error) => return Err(error),
            }
        }
        self.prctl(options::SET_SECUREBITS, NO_ROOT_LOCKED)?;
        self.call(nr::CAPSET, [none, none.wrapping_add(HEADER_BYTES)])?;
        if credentials_of(processes, self.pid)?.is_confined() {
            Ok(())
        } else {
            Err(Errno::PERM)
        }
    }

    /// Lets the process run again, untraced. Its own call returns what others may see of the fork.
    pub fn release(self, visibility: Visibility) -> Result<()> {
        let value = visibility as u64;
        self.own.after_success(value).set(self.pid)?;
        trace::detach(self.pid)
    }

    fn prctl(&self, option: usize, value: usize) -> Result<()> {
        self.call(nr::PRCTL, [option, value]).map(drop)
    }
}

/// A system call that a traced process was made to begin.
pub struct Begun {
    pid: Pid,
    deadline: Deadline,
    before: Registers,
}

impl Begun {
    /// Waits until the process has stopped.
    pub fn wait(&self) -> Result<()> {
        wait_for_stop(self.pid, self.deadline)
    }

    /// What the call returned, once the process has stopped; `None` when the call must be begun again.
    pub fn returned(&self) -> Result<Option<Result<usize>>> {
        match Registers::of(self.pid)?.progress_from(&self.before) {
            Progress::Made(outcome) => Ok(Some(outcome)),
            Progress::NotMade => Ok(None),
            Progress::Elsewhere => Err(Errno::PROTO),
        }
    }
}

/// Waits until a traced process has stopped. SIGCHLD signals are taken, so the caller has to reap.
fn wait_for_stop(pid: Pid, deadline: Deadline) -> Result<()> {
    let step = deadline.step();
    loop {
        match trace::look_for_stop(pid)? {
            Some(Waited::Stopped) => return Ok(()),
            Some(Waited::Ended) => return Err(Errno::SRCH),
            None => wait_for_child(step.left()? * 1000),
        }
    }
}

/// The id of the process that traces `pid`; 0 when there is none.
fn tracer_of(processes: Fd, pid: Pid) -> Result<Pid> {
    let mut tracer = 0;
    each_status_line(processes, pid, |line| {
        if let Some(rest) = line.strip_prefix(b"TracerPid:") {
            tracer = leading_number(rest.trim_ascii_start()).unwrap_or(0);
        }
    })?;
    Ok(tracer as Pid)
}

/// The id that a process has in the innermost process namespace it lives in.
pub fn innermost_pid(processes: Fd, pid: Pid) -> Result<Pid> {
    let mut innermost = None;
    each_status_line(processes, pid, |line| {
        if line.starts_with(b"NSpid:") {
            innermost = last_number(line);
        }
    })?;
    innermost.ok_or(Errno::SRCH)
}

fn last_number(line: &[u8]) -> Option<Pid> {
    let last = line.rsplit(|byte| *byte == b'\t').next()?;
    leading_number(last).map(|number| number as Pid)
}

fn each_status_line(processes: Fd, pid: Pid, visit: impl FnMut(&[u8])) -> Result<()> {
    let path = Text::<32>::new(format_args!("{pid}/status"))?;
    each_line_at(processes, path.as_c_str(), visit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{close, open, open_flags};

    #[test]
    fn the_innermost_id_of_a_process_is_the_last_in_its_status() {
        assert_eq!(last_number(b"NSpid:\t4711\t120\t7"), Some(7));
        assert_eq!(last_number(b"NSpid:\t4711"), Some(4711));
    }

    #[test]
    fn a_process_that_runs_may_take_longer_for_a_step_than_one_that_sleeps_and_none_for_ever() {
        let processes = open(c"/proc", open_flags::RDONLY | open_flags::DIRECTORY, 0).unwrap();
        let now = monotonic_milliseconds();
        let step = |pid, passed, end| {
            let deadline = Deadline {
                processes,
                pid,
                end,
            };
            let start = now - passed;
            TimedStep { deadline, start }.left()
        };
        let no_process = 0;
        // The test itself runs: this is its main thread's id, so the state of the calling thread is asked for.
        let thread = std::fs::read_link("/proc/thread-self").unwrap();
        let id = thread.file_name().unwrap().to_str().unwrap();
        let running = id.parse().unwrap();
        assert!(step(no_process, 0, now + 60_000).is_ok_and(|left| left > LOOK_PERIOD_MS));
        assert_eq!(
            step(no_process, STEP_TIMEOUT_MS, now + 60_000),
            Err(Errno::AGAIN)
        );
        assert_eq!(
            step(running, STEP_TIMEOUT_MS, now + 60_000),
            Ok(LOOK_PERIOD_MS)
        );
        assert_eq!(step(running, STEP_TIMEOUT_MS, now), Err(Errno::AGAIN));
        close(processes);
    }
}
