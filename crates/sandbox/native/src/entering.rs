//! How a process of the session enters the namespaces of a fork without ever running there with capabilities.
//!
//! To enter a user namespace gives every capability in it, until they are given up. But the process that enters has the memory of a
//! head, which may be the work of hostile code, and shares it with others. So it does not run meanwhile: init, its parent, traces it and
//! makes the system calls in its place. For each, init sets all registers and lets the process run **one instruction**. If that is no
//! `syscall`, because somebody changes the memory at this very moment, the process is stopped again after it, nothing was called, and
//! it is ended. Of its memory, only one thing is read by the kernel: the sets of capabilities that are to be left to it. What is really left,
//! init reads from `/proc` before it lets go.

use crate::fork::credentials_of;
use crate::notify::Question;
use crate::privileges::{NO_ROOT_LOCKED, options};
use crate::sys::trace::{self, Progress, Registers, Waited};
use crate::sys::{Errno, Fd, Pid, Result, each_line_at, kill, nr, own_pid, signals};
use crate::text::{Text, leading_number};

/// How often a call is begun again when signals come in between.
pub const MOST_ATTEMPTS: usize = 100;

/// A process that we trace, stopped in a call of its own.
pub struct Stopped {
    pid: Pid,
    own: Registers,
}

impl Stopped {
    /// Stops a child of ours that asked to be traced, and waits for an answer to `question` now.
    pub fn in_call(processes: Fd, pid: Pid, question: &Question) -> Result<Stopped> {
        // Else nobody would tell us that it has stopped.
        if tracer_of(processes, pid)? != own_pid() {
            return Err(Errno::PERM);
        }
        kill(pid, signals::STOP)?;
        wait(pid)?;
        let own = trace::registers(pid)?;
        if own.are_interrupted_in(question.number(), question.instruction()) {
            Ok(Stopped { pid, own })
        } else {
            Err(Errno::PROTO)
        }
    }

    /// Its number.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Lets it begin a call. It stops when the call returns.
    pub fn begin(&self, number: usize, arguments: [usize; 2]) -> Result<Begun> {
        let before = self.own.before_call(number, arguments);
        trace::set_registers(self.pid, &before)?;
        trace::step(self.pid)?;
        Ok(Begun {
            pid: self.pid,
            before,
        })
    }

    /// Makes a call that waits for nobody.
    fn call(&self, number: usize, arguments: [usize; 2]) -> Result<usize> {
        for _ in 0..MOST_ATTEMPTS {
            let begun = self.begin(number, arguments)?;
            begun.wait()?;
            if let Some(returned) = begun.returned()? {
                return returned;
            }
        }
        Err(Errno::AGAIN)
    }

    /// Closes its memory and its entries in `/proc` to the rest of the session.
    pub fn hide(&self) -> Result<()> {
        self.prctl(options::SET_DUMPABLE, 0)
    }

    /// Gives every capability up for good, and makes sure that it is so. `none` is where the process has an empty set of capabilities.
    pub fn drop_capabilities(&self, processes: Fd, none: usize) -> Result<()> {
        const HEADER_BYTES: usize = 8;
        for capability in 0..64 {
            match self.prctl(options::DROP_BOUNDING, capability) {
                Ok(()) => {}
                // The kernel knows no more of them.
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

    /// Lets it go on: its own call was successful.
    pub fn release(self) -> Result<()> {
        trace::set_registers(self.pid, &self.own.after_success())?;
        trace::detach(self.pid)
    }

    fn prctl(&self, option: usize, value: usize) -> Result<()> {
        self.call(nr::PRCTL, [option, value]).map(drop)
    }
}

/// A call that a traced process is about to make.
pub struct Begun {
    pid: Pid,
    before: Registers,
}

impl Begun {
    /// Waits until the process has stopped.
    pub fn wait(&self) -> Result<()> {
        wait(self.pid)
    }

    /// What the call returned, once the process has stopped; `None` when it must be begun again.
    pub fn returned(&self) -> Result<Option<Result<usize>>> {
        match trace::registers(self.pid)?.progress_from(&self.before) {
            Progress::Made(outcome) => Ok(Some(outcome)),
            Progress::NotMade => Ok(None),
            Progress::Elsewhere => Err(Errno::PROTO),
        }
    }
}

fn wait(pid: Pid) -> Result<()> {
    match trace::wait_for_stop(pid)? {
        Waited::Stopped => Ok(()),
        Waited::Ended => Err(Errno::SRCH),
    }
}

/// Who traces a process; 0 for nobody.
fn tracer_of(processes: Fd, pid: Pid) -> Result<Pid> {
    let mut tracer = 0;
    each_status_line(processes, pid, |line| {
        if let Some(rest) = line.strip_prefix(b"TracerPid:") {
            tracer = leading_number(rest.trim_ascii_start()).unwrap_or(0);
        }
    })?;
    Ok(tracer as Pid)
}

/// The number of a process in the innermost process namespace that it lives in.
pub fn innermost_number(processes: Fd, pid: Pid) -> Result<Pid> {
    let mut number = None;
    each_status_line(processes, pid, |line| {
        if line.starts_with(b"NSpid:") {
            number = last_number(line);
        }
    })?;
    number.ok_or(Errno::SRCH)
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

    #[test]
    fn a_process_has_its_last_number_in_its_own_session() {
        assert_eq!(last_number(b"NSpid:\t4711\t120\t7"), Some(7));
        assert_eq!(last_number(b"NSpid:\t4711"), Some(4711));
    }
}
