//! `ptrace`, as far as init needs it to make system calls in the place of a stopped process.

use super::{Pid, Result, nr, syscall};
pub use crate::arch::registers::Registers;

const TRACE_ME: usize = 0;
const CONTINUE: usize = 7;
const SINGLE_STEP: usize = 9;
const DETACH: usize = 17;

/// How far a call is that a traced process shall make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A signal came before it, or in the middle of it.
    NotMade,
    /// It returned this.
    Made(Result<usize>),
    /// The instruction was none that makes a call: memory was changed.
    Elsewhere,
}

/// What a traced process did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// It has stopped.
    Stopped,
    /// It has ended. It was not reaped, so its id cannot be another's yet.
    Ended,
}

/// Asks to be traced by the parent. What follows the first argument means nothing to the kernel; init reads it (`forks/fork.rs`).
pub fn be_traced_by_parent(hints: [usize; 5]) -> Result<()> {
    let [first, second, third, fourth, fifth] = hints;
    let words = [TRACE_ME, first, second, third, fourth, fifth];
    // SAFETY: with this request the kernel reads nothing else.
    unsafe { syscall(nr::PTRACE, words) }.map(drop)
}

/// Whether the arguments of `ptrace` are those of [`be_traced_by_parent`]; then what follows.
pub fn trace_me_arguments(arguments: &[u64; 6]) -> Option<[u64; 5]> {
    let [request, hints @ ..] = *arguments;
    (request == TRACE_ME as u64).then_some(hints)
}

/// Lets a stopped process run one instruction; if that is a system call, until it returns. The signal that it stopped for is dropped.
pub fn step(pid: Pid) -> Result<()> {
    resume(SINGLE_STEP, pid)
}

/// Lets a stopped process run until the next signal. The one that it stopped for is dropped.
pub fn go_on(pid: Pid) -> Result<()> {
    resume(CONTINUE, pid)
}

/// Lets a stopped process run, and traces it no more.
pub fn detach(pid: Pid) -> Result<()> {
    resume(DETACH, pid)
}

fn resume(request: usize, pid: Pid) -> Result<()> {
    // SAFETY: no pointers; the signal to deliver is none.
    unsafe { syscall(nr::PTRACE, [request, pid as usize, 0, 0]) }.map(drop)
}

/// Whether a process that we trace, or a child of ours, has stopped or ended; `None` while it runs.
pub fn look_for_stop(pid: Pid) -> Result<Option<Waited>> {
    const NO_HANG: usize = 1;
    const BY_NUMBER: usize = 1;
    const STOPPED_OR_ENDED: usize = 2 | 4;
    const DO_NOT_REAP: usize = 0x0100_0000;
    const ALL_CHILDREN: usize = 0x4000_0000;
    const HAS_EXITED: i32 = 1;
    const WAS_KILLED: i32 = 2;
    const DUMPED_CORE: i32 = 3;
    // `siginfo`: number, error, code, padding, process.
    let mut info = [0i32; 32];
    let words = [
        BY_NUMBER,
        pid as usize,
        info.as_mut_ptr() as usize,
        STOPPED_OR_ENDED | DO_NOT_REAP | ALL_CHILDREN | NO_HANG,
        0,
    ];
    // SAFETY: memory for the structure.
    unsafe { syscall(nr::WAITID, words) }?;
    let [_, _, code, _, process, ..] = info;
    Ok(match code {
        _ if process == 0 => None,
        HAS_EXITED | WAS_KILLED | DUMPED_CORE => Some(Waited::Ended),
        _ => Some(Waited::Stopped),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_none_in_its_lower_half_alone_is_no_wish_to_be_traced() {
        assert_eq!(
            trace_me_arguments(&[0, 1, 2, 3, 4, 5]),
            Some([1, 2, 3, 4, 5])
        );
        assert_eq!(trace_me_arguments(&[1 << 32, 1, 2, 3, 4, 5]), None);
        assert_eq!(trace_me_arguments(&[16, 1, 2, 3, 4, 5]), None);
    }
}
