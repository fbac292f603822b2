//! The registers of a stopped process, and what they say about a system call.
//!
//! A process that a signal interrupts in a call that shall be made again stops at the instruction `svc` itself, with the arguments that it had:
//! the kernel has taken it back there before it stops.

use crate::sys::trace::Progress;
use crate::sys::{Errno, Pid, Result, nr, syscall};

const GET_REGISTER_SET: usize = 0x4204;
const SET_REGISTER_SET: usize = 0x4205;
const GENERAL: usize = 1;

/// The registers of a stopped process: `struct user_pt_regs`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// `x0` to `x30`: the arguments of a call are in the first, and its number is in `x8`.
    general: [u64; 31],
    stack_pointer: u64,
    instruction: u64,
    state: u64,
}

impl Registers {
    /// The register with the number of a call.
    const NUMBER: usize = 8;
    /// How long the instruction `svc` is.
    const CALL_BYTES: u64 = 4;

    /// The registers of a process that we trace and that has stopped.
    pub fn of(pid: Pid) -> Result<Registers> {
        let mut registers = Registers::default();
        exchange(GET_REGISTER_SET, pid, &raw mut registers)?;
        Ok(registers)
    }

    /// Gives these registers to a process that we trace and that has stopped.
    pub fn set(&self, pid: Pid) -> Result<()> {
        exchange(SET_REGISTER_SET, pid, (&raw const *self).cast_mut())
    }

    /// Whether the process was interrupted in the system call `number`, made by the instruction before `after`.
    pub fn are_interrupted_in(&self, number: usize, after: u64) -> bool {
        self.general[Registers::NUMBER] == number as u64
            && self.instruction == after.wrapping_sub(Registers::CALL_BYTES)
    }

    /// These registers at the same instruction, about to make another call.
    pub fn before_call(&self, number: usize, arguments: [usize; 2]) -> Registers {
        let mut before = *self;
        before.general[..6].fill(0);
        let [first, second] = arguments.map(|argument| argument as u64);
        (before.general[0], before.general[1]) = (first, second);
        before.general[Registers::NUMBER] = number as u64;
        before
    }

    /// These registers after their own call, as if it had been successful and had returned `value`.
    pub fn after_success(&self, value: u64) -> Registers {
        let mut after = *self;
        after.general[0] = value;
        after.instruction = self.instruction.wrapping_add(Registers::CALL_BYTES);
        after
    }

    /// How far the call is that `before` was about to make, when the process has stopped with these registers.
    pub fn progress_from(&self, before: &Registers) -> Progress {
        let number = |registers: &Registers| registers.general[Registers::NUMBER];
        if self.instruction == before.instruction && number(self) == number(before) {
            return Progress::NotMade;
        }
        if self.instruction != before.instruction.wrapping_add(Registers::CALL_BYTES) {
            return Progress::Elsewhere;
        }
        match self.general[0] as i64 {
            error @ -4095..0 => Progress::Made(Err(Errno(-error as i32))),
            value => Progress::Made(Ok(value as usize)),
        }
    }
}

fn exchange(request: usize, pid: Pid, registers: *mut Registers) -> Result<()> {
    let slice = [registers as usize, size_of::<Registers>()];
    let words = [request, pid as usize, GENERAL, slice.as_ptr() as usize];
    // SAFETY: the structure is of the size that is told.
    unsafe { syscall(nr::PTRACE, words) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_as_many_as_the_kernel_writes() {
        assert_eq!(size_of::<Registers>(), 34 * 8);
    }

    #[test]
    fn only_the_instruction_behind_the_call_shows_that_it_was_made() {
        let mut stopped = Registers {
            instruction: 0x1000,
            ..Registers::default()
        };
        stopped.general[Registers::NUMBER] = nr::SETNS as u64;
        assert!(stopped.are_interrupted_in(nr::SETNS, 0x1004));
        assert!(!stopped.are_interrupted_in(nr::SETNS, 0x1000));
        assert!(!stopped.are_interrupted_in(nr::KILL, 0x1004));
        let before = stopped.before_call(nr::PRCTL, [24, 0]);
        let at = |instruction, returned: i64| {
            let mut registers = before;
            registers.instruction = instruction;
            registers.general[0] = returned as u64;
            registers.progress_from(&before)
        };
        assert_eq!(before.progress_from(&before), Progress::NotMade);
        assert_eq!(at(0x1000, 24), Progress::NotMade);
        assert_eq!(at(0x1004, 0), Progress::Made(Ok(0)));
        assert_eq!(at(0x1004, -1), Progress::Made(Err(Errno::PERM)));
        assert_eq!(at(0x4000, 0), Progress::Elsewhere);
        assert_eq!(stopped.progress_from(&before), Progress::Elsewhere);
        assert_eq!(stopped.after_success(7).instruction, 0x1004);
    }
}
