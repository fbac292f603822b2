//! What the compiler expects a C library to bring for memory. Written in assembler: a loop would be compiled back into a call of itself.

use core::arch::asm;

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the caller vouches for both regions.
    unsafe {
        asm!(
            // Sixteen bytes at a time, then the rest.
            "2:",
            "subs {count}, {count}, #16",
            "b.lo 3f",
            "ldp {a}, {b}, [{from}], #16",
            "stp {a}, {b}, [{to}], #16",
            "b 2b",
            "3:",
            "adds {count}, {count}, #16",
            "b.eq 5f",
            "4:",
            "ldrb {a:w}, [{from}], #1",
            "strb {a:w}, [{to}], #1",
            "subs {count}, {count}, #1",
            "b.ne 4b",
            "5:",
            count = inout(reg) count => _,
            to = inout(reg) to => _,
            from = inout(reg) from => _,
            a = out(reg) _,
            b = out(reg) _,
            options(nostack),
        );
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= count {
        // SAFETY: the caller vouches for both regions; they do not overlap in the harmful way.
        return unsafe { memcpy(to, from, count) };
    }
    // SAFETY: as above, from the end backwards.
    unsafe {
        asm!(
            "2:",
            "subs {count}, {count}, #1",
            "b.lo 3f",
            "ldrb {a:w}, [{from}, {count}]",
            "strb {a:w}, [{to}, {count}]",
            "b 2b",
            "3:",
            count = inout(reg) count => _,
            to = in(reg) to,
            from = in(reg) from,
            a = out(reg) _,
            options(nostack),
        );
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, count: usize) -> *mut u8 {
    let word = u64::from(value as u8) * 0x0101_0101_0101_0101;
    // SAFETY: the caller vouches for the region.
    unsafe {
        asm!(
            "2:",
            "subs {count}, {count}, #16",
            "b.lo 3f",
            "stp {word}, {word}, [{to}], #16",
            "b 2b",
            "3:",
            "adds {count}, {count}, #16",
            "b.eq 5f",
            "4:",
            "strb {word:w}, [{to}], #1",
            "subs {count}, {count}, #1",
            "b.ne 4b",
            "5:",
            count = inout(reg) count => _,
            to = inout(reg) to => _,
            word = in(reg) word,
            options(nostack),
        );
    }
    to
}
