//! `ptrace`, as far as init needs it to make system calls in the place of a stopped process.

use super::{Errno, Pid, Result, nr, syscall};

const TRACE_ME: usize = 0;
const CONTINUE: usize = 7;
const SINGLE_STEP: usize = 9;
const GET_REGISTERS: usize = 12;
const SET_REGISTERS: usize = 13;
const DETACH: usize = 17;

/// The registers of a stopped process: `struct user_regs_struct`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// `r15`, `r14`, `r13`, `r12`, `rbp` and `rbx`.
    preserved: [u64; 6],
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rax: u64,
    rcx: u64,
    rdx: u64,
    rsi: u64,
    rdi: u64,
    /// The number of the system call that the process is in; -1 for none.
    call: u64,
    rip: u64,
    /// `cs`, `eflags`, `rsp`, `ss`, `fs_base`, `gs_base`, `ds`, `es`, `fs` and `gs`.
    rest: [u64; 10],
}

impl Registers {
    /// The kernel begins no call again for a process whose registers say that it is in none.
    const NO_CALL: u64 = u64::MAX;
    /// How long the instruction `syscall` is.
    const SYSCALL_BYTES: u64 = 2;
    /// What a call returns, inside the kernel, when it was interrupted and shall be made again.
    const INTERRUPTED: [i64; 4] = [-512, -513, -514, -516];

    /// Whether the process was interrupted in the system call `number`, made by the instruction before `after`.
    pub fn are_interrupted_in(&self, number: usize, after: u64) -> bool {
        self.call == number as u64 && self.rip == after && self.is_interrupted()
    }

    /// These registers at the `syscall` instruction again, about to make another call.
    pub fn before_call(&self, number: usize, arguments: [usize; 2]) -> Registers {
        let [rdi, rsi] = arguments.map(|argument| argument as u64);
        Registers {
            rax: number as u64,
            rdi,
            rsi,
            rdx: 0,
            r10: 0,
            r8: 0,
            r9: 0,
            call: Registers::NO_CALL,
            rip: self.rip.wrapping_sub(Registers::SYSCALL_BYTES),
            ..*self
        }
    }

    /// These registers after their own call, as if it had been successful and had returned `value`.
    pub fn after_success(&self, value: u64) -> Registers {
        Registers {
            rax: value,
            call: Registers::NO_CALL,
            ..*self
        }
    }

    /// How far the call is that `before` was about to make, when the process has stopped with these registers.
    pub fn progress_from(&self, before: &Registers) -> Progress {
        if self.rip == before.rip && self.rax == before.rax {
            return Progress::NotMade;
        }
        if self.rip != before.rip.wrapping_add(Registers::SYSCALL_BYTES) {
            return Progress::Elsewhere;
        }
        if self.is_interrupted() {
            return Progress::NotMade;
        }
        match self.rax as i64 {
            error @ -4095..0 => Progress::Made(Err(Errno(-error as i32))),
            value => Progress::Made(Ok(value as usize)),
        }
    }

    fn is_interrupted(&self) -> bool {
        Registers::INTERRUPTED.contains(&(self.rax as i64))
    }
}

/// How far a call is that a traced process shall make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A signal came before it, or in the middle of it.
    NotMade,
    /// It returned this.
    Made(Result<usize>),
    /// The instruction was no `syscall`: memory was changed.
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

/// The registers of a process that we trace and that has stopped.
pub fn registers(pid: Pid) -> Result<Registers> {
    let mut registers = Registers::default();
    let words = [GET_REGISTERS, pid as usize, 0, &raw mut registers as usize];
    // SAFETY: the structure is of the size that the kernel writes.
    unsafe { syscall(nr::PTRACE, words) }?;
    Ok(registers)
}

/// Gives a process that we trace and that has stopped other registers.
pub fn set_registers(pid: Pid, registers: &Registers) -> Result<()> {
    let words = [
        SET_REGISTERS,
        pid as usize,
        0,
        &raw const *registers as usize,
    ];
    // SAFETY: the structure is of the size that the kernel reads.
    unsafe { syscall(nr::PTRACE, words) }.map(drop)
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
    fn registers_are_as_many_as_the_kernel_writes() {
        assert_eq!(size_of::<Registers>(), 27 * 8);
    }

    #[test]
    fn only_the_instruction_behind_the_call_shows_that_it_was_made() {
        let stopped = Registers {
            rip: 0x1002,
            rax: -512i64 as u64,
            call: nr::SETNS as u64,
            ..Registers::default()
        };
        assert!(stopped.are_interrupted_in(nr::SETNS, 0x1002));
        assert!(!stopped.are_interrupted_in(nr::SETNS, 0x1004));
        assert!(!stopped.are_interrupted_in(nr::KILL, 0x1002));
        let before = stopped.before_call(nr::PRCTL, [24, 0]);
        let at = |rip, rax: i64| {
            Registers {
                rip,
                rax: rax as u64,
                ..before
            }
            .progress_from(&before)
        };
        assert_eq!(before.progress_from(&before), Progress::NotMade);
        assert_eq!(at(0x1002, -512), Progress::NotMade);
        assert_eq!(at(0x1002, 0), Progress::Made(Ok(0)));
        assert_eq!(at(0x1002, -1), Progress::Made(Err(Errno::PERM)));
        assert_eq!(at(0x1000, 7), Progress::Elsewhere);
        assert_eq!(at(0x4000, 0), Progress::Elsewhere);
        assert!(!stopped.after_success(0).is_interrupted());
    }

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
