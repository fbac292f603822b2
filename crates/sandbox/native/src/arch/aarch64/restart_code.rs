//! Instructions that repeat a system call of libc's after a signal: the instruction `svc` of its function becomes a jump to them.
//!
//! The number of a call is in `x8`, and the first argument is in the register that the outcome comes back in. So the argument is kept on the
//! stack. Functions keep nothing below their stack pointer.

use crate::sys::{Errno, Result, nr};
use core::arch::asm;

/// As much of a function as is searched for the call.
pub const SEARCHED_BYTES: usize = 160;
/// Half of what a jump reaches, so that every slot of the page is in reach.
pub const MAX_DISTANCE: usize = 64 << 20;
/// How far apart the addresses are at which a page is tried.
pub const DISTANCE_BETWEEN_TRIES: usize = 8 << 20;
/// `svc #0`.
pub const CALL_BYTES: usize = 4;

const SVC: u32 = 0xD400_0001;
const JUMP: u32 = 0x1400_0000;

/// Where the first wanted call is, and its number.
pub fn find_call(code: &[u8], is_wanted: impl Fn(usize) -> bool) -> Option<(usize, usize)> {
    /// `mov x8, NUMBER`, without the number.
    const SET_NUMBER: u32 = 0xD280_0008;
    const NUMBER: u32 = 0x001F_FFE0;
    let mut number = None;
    let (instructions, _) = code.as_chunks();
    for (index, bytes) in instructions.iter().enumerate() {
        let instruction = u32::from_le_bytes(*bytes);
        if instruction & !NUMBER == SET_NUMBER {
            number = Some(((instruction & NUMBER) >> 5) as usize);
        } else if instruction == SVC
            && let Some(number) = number.take().filter(|number| is_wanted(*number))
        {
            return Some((index * CALL_BYTES, number));
        }
    }
    None
}

/// What takes the place of the call at `site`.
pub fn jump(site: usize, slot: usize) -> Result<[u8; CALL_BYTES]> {
    let bytes = slot.wrapping_sub(site) as isize;
    const REACH: isize = 128 << 20;
    if (-REACH..REACH).contains(&bytes) {
        Ok((JUMP | (bytes >> 2) as u32 & 0x03FF_FFFF).to_le_bytes())
    } else {
        Err(Errno::OVERFLOW)
    }
}

/// The instructions, which lie at `slot` and go on at `back`.
pub fn restarting_call(_number: usize, slot: usize, back: usize) -> Result<[u8; 36]> {
    const LAST: usize = 8;
    let code = [
        0xA9BF_27E0, // stp x0, x9, [sp, -16]!
        SVC,
        0x9100_1009, // add x9, x0, EINTR
        0xB500_0069, // cbnz x9, to the end
        0xF940_03E0, // ldr x0, [sp]
        0x17FF_FFFC, // b to the call
        0xF940_07E9, // ldr x9, [sp, 8]
        0x9100_43FF, // add sp, sp, 16
        u32::from_le_bytes(jump(slot + LAST * 4, back)?),
    ];
    Ok(bytes_of(code))
}

/// Instructions that repeat a call that maps memory, if it was refused for lack of memory and the function `make_room` says so. All registers but that of
/// the outcome are as before.
///
/// A mapping is not filled at once (`MAP_POPULATE`): that is a wish which the kernel need not fulfil, and where init counts memory the filter refuses it.
pub fn mapping_call(
    number: usize,
    slot: usize,
    back: usize,
    make_room: usize,
) -> Result<[u8; 168]> {
    // and w3, w3, ~MAP_POPULATE
    const WITHOUT_POPULATE: u32 = 0x1210_7863;
    const NO_OPERATION: u32 = 0xD503_201F;
    const LAST: usize = 39;
    let code = [
        match number {
            nr::MMAP => WITHOUT_POPULATE,
            _ => NO_OPERATION,
        },
        0xD102_C3FF, // sub sp, sp, 176
        0xA900_07E0, // stp x0, x1, [sp]
        0xA901_0FE2, // stp x2, x3, [sp, 16]
        0xA902_17E4, // stp x4, x5, [sp, 32]
        0xA903_1FE6, // stp x6, x7, [sp, 48]
        0xA904_27E8, // stp x8, x9, [sp, 64]
        0xA905_2FEA, // stp x10, x11, [sp, 80]
        0xA906_37EC, // stp x12, x13, [sp, 96]
        0xA907_3FEE, // stp x14, x15, [sp, 112]
        0xA908_47F0, // stp x16, x17, [sp, 128]
        0xA909_7BF2, // stp x18, x30, [sp, 144]
        0xD53B_4209, // mrs x9, nzcv
        0xF900_53E9, // str x9, [sp, 160]
        0xA940_07E0, // ldp x0, x1, [sp]: the call begins
        0xA941_0FE2, // ldp x2, x3, [sp, 16]
        0xA942_17E4, // ldp x4, x5, [sp, 32]
        0xF940_23E8, // ldr x8, [sp, 64]
        SVC,
        0x9100_3009, // add x9, x0, ENOMEM
        0xB500_00C9, // cbnz x9, to the end
        0xAA08_03E0, // mov x0, x8
        0x5800_0249, // ldr x9, make_room
        0xD63F_0120, // blr x9
        0x35FF_FEC0, // cbnz w0, to the call
        0x9280_0160, // mov x0, -ENOMEM
        0xF940_53E9, // ldr x9, [sp, 160]: the end
        0xD51B_4209, // msr nzcv, x9
        0xF940_07E1, // ldr x1, [sp, 8]
        0xA941_0FE2, // ldp x2, x3, [sp, 16]
        0xA942_17E4, // ldp x4, x5, [sp, 32]
        0xA943_1FE6, // ldp x6, x7, [sp, 48]
        0xA944_27E8, // ldp x8, x9, [sp, 64]
        0xA945_2FEA, // ldp x10, x11, [sp, 80]
        0xA946_37EC, // ldp x12, x13, [sp, 96]
        0xA947_3FEE, // ldp x14, x15, [sp, 112]
        0xA948_47F0, // ldp x16, x17, [sp, 128]
        0xA949_7BF2, // ldp x18, x30, [sp, 144]
        0x9102_C3FF, // add sp, sp, 176
        u32::from_le_bytes(jump(slot + LAST * 4, back)?),
        make_room as u32,
        (make_room >> 32) as u32,
    ];
    Ok(bytes_of(code))
}

/// Makes the processor see code that was written over.
pub fn code_has_changed(address: usize, bytes: usize) {
    /// No line of a cache is shorter.
    const LINE_BYTES: usize = 16;
    let lines = || (address & !(LINE_BYTES - 1)..address + bytes).step_by(LINE_BYTES);
    // SAFETY: caches alone are concerned.
    unsafe {
        for line in lines() {
            asm!("dc cvau, {line}", line = in(reg) line, options(nostack, preserves_flags));
        }
        asm!("dsb ish", options(nostack, preserves_flags));
        for line in lines() {
            asm!("ic ivau, {line}", line = in(reg) line, options(nostack, preserves_flags));
        }
        asm!("dsb ish", "isb", options(nostack, preserves_flags));
    }
}

fn bytes_of<const WORDS: usize, const BYTES: usize>(code: [u32; WORDS]) -> [u8; BYTES] {
    const { assert!(BYTES == WORDS * 4) };
    let mut bytes = [0; BYTES];
    let (places, _) = bytes.as_chunks_mut();
    for (place, instruction) in places.iter_mut().zip(code) {
        *place = instruction.to_le_bytes();
    }
    bytes
}

/// Functions like those of libc, for tests: a call with its number, whose arguments are in the registers of a function, and a return.
#[cfg(test)]
pub fn function_with_call(number: usize) -> [u8; 16] {
    // `mov x8, number; nop; svc 0; ret`
    bytes_of([
        0xD280_0008 | (number as u32) << 5,
        0xD503_201F,
        SVC,
        0xD65F_03C0,
    ])
}
