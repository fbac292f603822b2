//! Whether a session's processes have run since they were looked at. What has not run holds what it held.
//!
//! To look takes hundreds of system calls. Ten times a second, that is one or two hundredths of a processor for a session that does nothing.

use crate::sys::{self, Pid};

/// For how long a look holds at most, in milliseconds. The kernel can give memory to a process that sleeps (huge pages), and it brings the time of
/// a process that runs up to date only at its next tick.
const MAX_AGE_MS: u64 = 1_000;

/// With more processes than this, no session counts as idle.
const MAX_PROCESSES: usize = 32;

/// The processor time of all processes of a session.
pub struct ProcessorTimes {
    times: [(Pid, u64); MAX_PROCESSES],
    count: usize,
    /// When the times were read, in milliseconds, if they are known.
    read_at: Option<u64>,
}

impl ProcessorTimes {
    /// Nothing is known.
    pub fn unknown() -> ProcessorTimes {
        ProcessorTimes {
            times: [(0, 0); MAX_PROCESSES],
            count: 0,
            read_at: None,
        }
    }

    /// Reads those of the processes that `each` visits. To be called before they are looked at: what runs during the look has run after it.
    pub fn read(&mut self, now: u64, each: impl FnOnce(&mut dyn FnMut(Pid))) {
        let (times, mut count) = (&mut self.times, 0);
        let mut is_known = true;
        each(
            &mut |pid| match (times.get_mut(count), sys::processor_time(pid)) {
                (Some(slot), Ok(time)) => {
                    *slot = (pid, time);
                    count += 1;
                }
                _ => is_known = false,
            },
        );
        self.count = count;
        self.read_at = is_known.then_some(now);
    }

    /// Something happened of which these times tell nothing.
    pub fn forget(&mut self) {
        self.read_at = None;
    }

    /// Whether it is certain that no process has run since. There are no other processes then: one of these would have had to start them.
    pub fn are_unchanged(&self, now: u64) -> bool {
        self.read_at.is_some_and(|at| now < at + MAX_AGE_MS)
            && self.times[..self.count]
                .iter()
                .all(|(pid, time)| sys::processor_time(*pid) == Ok(*time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    fn shell(script: &str) -> Child {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script]).stdin(Stdio::piped());
        shell.spawn().unwrap()
    }

    /// The times of these children, when they have come to rest.
    fn at_rest(children: &[&Child]) -> ProcessorTimes {
        let mut times = ProcessorTimes::unknown();
        let begun = Instant::now();
        let mut unchanged = 0;
        while unchanged < 10 {
            assert!(begun.elapsed() < Duration::from_secs(20));
            if !times.are_unchanged(0) {
                unchanged = 0;
                times.read(0, |visit| {
                    children.iter().for_each(|child| visit(child.id() as Pid));
                });
            }
            unchanged += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
        times
    }

    #[test]
    fn who_sleeps_is_idle_until_it_runs() {
        let (mut first, mut second) = (shell("read line; read line"), shell("read line"));
        let times = at_rest(&[&first, &second]);
        assert!(times.are_unchanged(MAX_AGE_MS - 1));
        assert!(
            !times.are_unchanged(MAX_AGE_MS),
            "a look does not hold for ever"
        );
        std::io::Write::write_all(first.stdin.as_mut().unwrap(), b"\n").unwrap();
        let begun = Instant::now();
        while times.are_unchanged(0) {
            assert!(begun.elapsed() < Duration::from_secs(20), "it has run");
        }
        for child in [&mut first, &mut second] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn who_has_ended_or_was_forgotten_is_not_idle() {
        let mut child = shell("read line");
        let mut times = at_rest(&[&child]);
        times.forget();
        assert!(!times.are_unchanged(0));
        let times = at_rest(&[&child]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!times.are_unchanged(0));
    }

    #[test]
    fn too_many_processes_are_never_idle() {
        let child = shell("read line");
        let mut times = at_rest(&[&child]);
        times.read(0, |visit| {
            (0..=MAX_PROCESSES).for_each(|_| visit(child.id() as Pid));
        });
        assert!(!times.are_unchanged(0));
        let mut child = child;
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
