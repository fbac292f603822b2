//! The head tells init that it dies, before the kernel takes its memory apart. That takes milliseconds, and only then would init hear of it.
//!
//! Whoever else has these handlers, a child of the head's or a program's own thread, is refused, and dies as ever. So does a head that has put
//! a handler of its own here, or no stack left for this one.

use crate::notify::Question;
use crate::sys::{self, nr, signals, syscall};
use core::arch::global_asm;
use core::ffi::c_void;

/// A thread that nobody has: a signal for it is meant as a word to init.
const NOBODY: usize = 0x7FFF_C311;
const INIT: usize = 1;
const DEADLY: [i32; 5] = [
    signals::ILL,
    signals::ABRT,
    signals::BUS,
    signals::FPE,
    signals::SEGV,
];

/// From now on, init hears of it.
pub fn promise() {
    const WITH_INFORMATION: u64 = 0x4;
    const HAS_RETURN: u64 = 0x0400_0000;
    const ONCE: u64 = 0x8000_0000;
    let action = [
        die as *const () as u64,
        WITH_INFORMATION | HAS_RETURN | ONCE,
        cellblock_return_from_signal as *const () as u64,
        0,
    ];
    for signal in DEADLY {
        // SAFETY: as the kernel has it: the handler, flags, how it returns, and a mask of eight bytes.
        let _ = unsafe {
            syscall(
                nr::RT_SIGACTION,
                [signal as usize, action.as_ptr() as usize, 0, 8],
            )
        };
    }
}

/// The signal that the head says it dies of.
pub fn heard(question: &Question) -> Option<i32> {
    let [process, thread, signal, ..] = *question.arguments();
    let is_meant =
        question.number() == nr::TGKILL && (process as usize, thread as usize) == (INIT, NOBODY);
    (is_meant && DEADLY.contains(&(signal as i32))).then_some(signal as i32)
}

/// Init does not answer a head that dies: it ends it.
unsafe extern "C" fn die(signal: i32, information: *const [i32; 3], _: *const c_void) {
    // SAFETY: no pointers.
    let tell = |process, thread| unsafe {
        syscall(nr::TGKILL, [process, thread, signal as usize]).is_ok()
    };
    tell(INIT, NOBODY);
    // By now the signal means what it always did. Where the code did something wrong, it does so again; where somebody sent the signal, it
    // has to be sent again.
    const SENT_BY_THE_KERNEL: i32 = 1;
    // SAFETY: the kernel passes at least this much; the third number tells where the signal is from.
    if unsafe { (*information)[2] } < SENT_BY_THE_KERNEL {
        // SAFETY: no pointers.
        let thread = unsafe { syscall(nr::GETTID, []) }.unwrap_or(0);
        tell(sys::own_pid() as usize, thread);
    }
}

global_asm!(
    ".globl cellblock_return_from_signal",
    ".hidden cellblock_return_from_signal",
    ".type cellblock_return_from_signal, @function",
    "cellblock_return_from_signal:",
    "mov eax, 15",
    "syscall",
);

unsafe extern "C" {
    fn cellblock_return_from_signal();
}
