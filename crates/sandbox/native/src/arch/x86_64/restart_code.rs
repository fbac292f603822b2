//! Instructions that make a system call of libc's again: `mov eax, NUMBER; syscall` of its function becomes a jump to them.

use crate::sys::{Errno, Result, nr};

/// As much of a function as is searched for the call.
pub const SEARCHED_BYTES: usize = 96;
/// Half of what a jump reaches, so that every slot of the page is in reach.
pub const MAX_DISTANCE: usize = 1 << 30;
/// How far apart the addresses are at which a page is tried.
pub const DISTANCE_BETWEEN_TRIES: usize = 64 << 20;
/// `mov eax, NUMBER; syscall`.
pub const CALL_BYTES: usize = 7;

/// Where the first wanted call is, and its number.
pub fn find_call(code: &[u8], is_wanted: impl Fn(usize) -> bool) -> Option<(usize, usize)> {
    code.windows(CALL_BYTES)
        .enumerate()
        .find_map(|(offset, window)| match *window {
            [0xB8, a, b, c, d, 0x0F, 0x05] => {
                let number = u32::from_le_bytes([a, b, c, d]) as usize;
                is_wanted(number).then_some((offset, number))
            }
            _ => None,
        })
}

/// What takes the place of the call at `site`: a jump, and two bytes that do nothing.
pub fn jump(site: usize, slot: usize) -> Result<[u8; CALL_BYTES]> {
    let mut jump = [0xE9, 0, 0, 0, 0, 0x66, 0x90];
    jump[1..5].copy_from_slice(&distance(site + 5, slot)?);
    Ok(jump)
}

/// The instructions, which lie at `slot` and go on at `back`. They use no stack: the function may keep values below its stack pointer.
pub fn restarting_call(number: usize, slot: usize, back: usize) -> Result<[u8; 18]> {
    let [a, b, c, d] = (number as u32).to_le_bytes();
    let mut code = [
        0xB8, a, b, c, d, // mov eax, number
        0x0F, 0x05, // syscall: keeps all registers that arguments are in
        0x48, 0x83, 0xF8, 0xFC, // cmp rax, -EINTR
        0x74, 0xF3, // je to the start
        0xE9, 0, 0, 0, 0, // jmp back
    ];
    let end = slot + code.len();
    code[14..].copy_from_slice(&distance(end, back)?);
    Ok(code)
}

/// Instructions that repeat a call that maps memory, if it was refused for lack of memory and the function `make_room` says so. The stack below its
/// pointer is left alone, and all registers that arguments are in are as before.
///
/// A mapping is not filled at once (`MAP_POPULATE`): that is a wish which the kernel need not fulfil, and where init counts memory the filter refuses it.
pub fn mapping_call(number: usize, slot: usize, back: usize, make_room: usize) -> Result<[u8; 99]> {
    // and r10d, ~MAP_POPULATE
    const WITHOUT_POPULATE: [u8; 7] = [0x41, 0x81, 0xE2, 0xFF, 0x7F, 0xFF, 0xFF];
    const NO_OPERATION: [u8; 7] = [0x0F, 0x1F, 0x80, 0, 0, 0, 0];
    let [a, b, c, d] = (number as u32).to_le_bytes();
    let m = match number {
        nr::MMAP => WITHOUT_POPULATE,
        _ => NO_OPERATION,
    };
    let f = (make_room as u64).to_le_bytes();
    let mut code = [
        m[0], m[1], m[2], m[3], m[4], m[5], m[6], // the flags, for `mmap`
        0xB8, a, b, c, d, // mov eax, number
        0x0F, 0x05, // syscall
        0x48, 0x83, 0xF8, 0xF4, // cmp rax, -ENOMEM
        0x75, 0x4A, // jne to the end
        0x48, 0x8D, 0x64, 0x24, 0x80, // lea rsp, [rsp - 128]
        0x57, 0x56, 0x52, // push rdi, rsi, rdx
        0x41, 0x52, 0x41, 0x50, 0x41, 0x51, // push r10, r8, r9
        0x53, // push rbx
        0x48, 0x89, 0xE3, // mov rbx, rsp
        0x48, 0x83, 0xE4, 0xF0, // and rsp, -16
        0x4C, 0x89, 0xD1, // mov rcx, r10
        0xBF, a, b, c, d, // mov edi, number
        0x48, 0xB8, f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], // mov rax, make_room
        0xFF, 0xD0, // call rax
        0x48, 0x89, 0xDC, // mov rsp, rbx
        0x5B, // pop rbx
        0x41, 0x59, 0x41, 0x58, 0x41, 0x5A, // pop r9, r8, r10
        0x5A, 0x5E, 0x5F, // pop rdx, rsi, rdi
        0x48, 0x8D, 0xA4, 0x24, 0x80, 0, 0, 0, // lea rsp, [rsp + 128]
        0x85, 0xC0, // test eax, eax
        0x75, 0xB0, // jnz to the call
        0x48, 0xC7, 0xC0, 0xF4, 0xFF, 0xFF, 0xFF, // mov rax, -ENOMEM
        0xE9, 0, 0, 0, 0, // jmp back
    ];
    let end = slot + code.len();
    code[95..].copy_from_slice(&distance(end, back)?);
    Ok(code)
}

/// Makes the processor see code that was written over. This one sees it by itself.
pub fn code_has_changed(_address: usize, _bytes: usize) {}

fn distance(from: usize, to: usize) -> Result<[u8; 4]> {
    let bytes = to.wrapping_sub(from) as isize;
    i32::try_from(bytes)
        .map(i32::to_le_bytes)
        .map_err(|_| Errno::OVERFLOW)
}

/// Functions like those of libc, for tests: a call with its number, whose arguments are in the registers of a function, and a return.
#[cfg(test)]
pub fn function_with_call(number: usize) -> [u8; 11] {
    let [a, b, c, d] = (number as u32).to_le_bytes();
    // `mov r10, rcx; mov eax, number; syscall; ret`
    [0x49, 0x89, 0xCA, 0xB8, a, b, c, d, 0x0F, 0x05, 0xC3]
}
