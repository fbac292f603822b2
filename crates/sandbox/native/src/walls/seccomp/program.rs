//! The program of a filter: instructions of classic BPF, and how it is given to the kernel.

use crate::arch::AUDIT_ARCHITECTURE;
use crate::sys::{Errno, Result, nr, syscall};

/// One instruction of the filter machine.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Instruction {
    pub(super) code: u16,
    pub(super) if_true: u8,
    pub(super) if_false: u8,
    pub(super) value: u32,
}

pub(super) const LOAD: u16 = 0x20;
pub(super) const JUMP_EQUAL: u16 = 0x15;
pub(super) const JUMP_GREATER_EQUAL: u16 = 0x35;
pub(super) const JUMP_ANY_BIT: u16 = 0x45;
pub(super) const AND: u16 = 0x54;
pub(super) const RETURN: u16 = 0x06;

pub(super) const OFFSET_NUMBER: u32 = 0;
pub(super) const OFFSET_ARCHITECTURE: u32 = 4;
/// The first number that no call has in the Linux versions which this filter was written for (up to 6.18). What a later version adds is not there
/// for a session: nothing here says what it can do, and programs fall back as on an older kernel. The calls of x32 have higher numbers, and
/// so have those that this kind of processor does not have (`arch`: `numbers`).
pub(super) const FIRST_UNKNOWN: u32 = 470;

pub(super) const ALLOW: u32 = 0x7FFF_0000;
pub(super) const NOTIFY_INIT: u32 = 0x7FC0_0000;
pub(super) const KILL: u32 = 0x8000_0000;

pub(super) const fn fail_with(errno: u32) -> u32 {
    0x0005_0000 | errno
}
pub(super) const PERM: u32 = fail_with(1);
pub(super) const ACCES: u32 = fail_with(13);
pub(super) const INVALID: u32 = fail_with(22);
pub(super) const NO_CONTROL: u32 = fail_with(25);
pub(super) const NOSYS: u32 = fail_with(38);
pub(super) const NO_PROTOCOL: u32 = fail_with(93);
pub(super) const NOT_SUPPORTED: u32 = fail_with(95);

pub(super) const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

/// The most instructions of a filter.
pub(super) const MAX_INSTRUCTIONS: usize = 1_000;

/// A filter that is being built.
pub(super) struct Program {
    pub(super) instructions: [Instruction; MAX_INSTRUCTIONS],
    pub(super) length: usize,
}

impl Program {
    pub(super) fn enforce(&self, flags: usize) -> Result<usize> {
        const SET_MODE_FILTER: usize = 1;
        if self.length > MAX_INSTRUCTIONS {
            return Err(Errno::OVERFLOW);
        }
        #[repr(C)]
        struct Filter {
            length: u16,
            instructions: *const Instruction,
        }
        let filter = Filter {
            length: self.length as u16,
            instructions: self.instructions.as_ptr(),
        };
        // SAFETY: the program lives through the call and its length is told.
        unsafe {
            syscall(
                nr::SECCOMP,
                [SET_MODE_FILTER, flags, &raw const filter as usize],
            )
        }
    }

    pub(super) fn new() -> Program {
        Program {
            instructions: [Instruction {
                code: 0,
                if_true: 0,
                if_false: 0,
                value: 0,
            }; MAX_INSTRUCTIONS],
            length: 0,
        }
    }

    /// Of this architecture only; then the number of the call is at hand.
    pub(super) fn begin(&mut self) {
        self.add(LOAD, OFFSET_ARCHITECTURE, 0, 0);
        self.add(JUMP_EQUAL, AUDIT_ARCHITECTURE, 1, 0);
        self.answer(KILL);
        self.add(LOAD, OFFSET_NUMBER, 0, 0);
        self.add(JUMP_GREATER_EQUAL, FIRST_UNKNOWN, 0, 1);
        self.answer(NOSYS);
    }

    pub(super) fn when(&mut self, number: usize, answer: u32) {
        self.add(JUMP_EQUAL, number as u32, 0, 1);
        self.answer(answer);
    }

    pub(super) fn when_argument(
        &mut self,
        number: usize,
        index: u32,
        test: u16,
        value: u32,
        answer: u32,
    ) {
        self.add(JUMP_EQUAL, number as u32, 0, 4);
        self.add(LOAD, argument(index), 0, 0);
        self.add(test, value, 0, 1);
        self.answer(answer);
        self.answer(ALLOW);
    }

    pub(super) fn unless_zero(&mut self, number: usize, answer: u32) {
        self.add(JUMP_EQUAL, number as u32, 0, 4);
        self.add(LOAD, argument(0), 0, 0);
        self.add(JUMP_EQUAL, 0, 0, 1);
        self.answer(ALLOW);
        self.answer(answer);
    }

    pub(super) fn answer(&mut self, answer: u32) {
        self.add(RETURN, answer, 0, 0);
    }

    pub(super) fn add(&mut self, code: u16, value: u32, if_true: u8, if_false: u8) {
        self.push(Instruction {
            code,
            if_true,
            if_false,
            value,
        });
    }

    pub(super) fn push(&mut self, instruction: Instruction) {
        if let Some(slot) = self.instructions.get_mut(self.length) {
            *slot = instruction;
        }
        self.length += 1;
    }
}
