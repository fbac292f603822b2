//! The registers of a stopped process, and what they say about a system call.

use crate::sys::trace::Progress;
use crate::sys::{Errno, Pid, Result, nr, syscall};

const GET_REGISTERS: usize = 12;
const SET_REGISTERS: usize = 13;

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

    /// The registers of a process that we trace and that has stopped.
    pub fn of(pid: Pid) -> Result<Registers> {
        let mut registers = Registers::default();
        let words = [GET_REGISTERS, pid as usize, 0, &raw mut registers as usize];
        // SAFETY: the structure is of the size that the kernel writes.
        unsafe { syscall(nr::PTRACE, words) }?;
        Ok(registers)
    }

    /// Gives these registers to a process that we trace and that has stopped.
    pub fn set(&self, pid: Pid) -> Result<()> {
        let words = [SET_REGISTERS, pid as usize, 0, &raw const *self as usize];
        // SAFETY: the structure is of the size that the kernel reads.
        unsafe { syscall(nr::PTRACE, words) }.map(drop)
    }

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
}
