//! System calls that are made again when a signal interrupts them.
//!
//! A call that init is notified of waits for init's answer. A signal ends this wait, and where the signal's handler does not ask for a restart
//! (Python's do not), the call fails with `EINTR`. Linux itself never interrupts these calls, so programs do not expect that. Whenever such a
//! call fails with `EINTR`, it was not done: the kernel goes on with it only after init's answer, and what init does in the place of the
//! caller it takes back when the caller does not wait any more (`files/perform.rs`). So it is safe to make the call again.
//!
//! This is done where libc makes the call. The instructions `mov eax, NUMBER; syscall` of its function become a jump to a few instructions
//! of ours, which do the same until the outcome is another one. Everything in the process that uses libc profits: Python, and libraries in C.
//!
//! Calls that map memory are made again in the same way, when there was not enough and `walls/data_limit.rs` has made room.

use crate::sys::{Errno, Result, nr, syscall};
use crate::walls::data_limit;
use crate::walls::seccomp::{CHANGES, METADATA_CHANGES};

/// As much of a function as is searched for the call.
const SEARCHED_BYTES: usize = 96;
/// `mov eax, NUMBER; syscall`.
const CALL_BYTES: usize = 7;
const SLOT_BYTES: usize = 32;
const PAGE_BYTES: usize = 4096;

/// Calls to other processes that init is notified of.
const SIGNALS: &[usize] = &[
    nr::KILL,
    nr::TKILL,
    nr::TGKILL,
    nr::RT_SIGQUEUEINFO,
    nr::RT_TGSIGQUEUEINFO,
    nr::SETPRIORITY,
    nr::IOPRIO_SET,
    nr::PRLIMIT64,
    nr::SCHED_SETAFFINITY,
    nr::SCHED_SETPARAM,
    nr::SCHED_SETSCHEDULER,
];

/// Whether a call is made again. Calls that open a file are not: Linux interrupts them too, and programs expect it.
fn is_restarted(number: usize) -> bool {
    let mut all = CHANGES.iter().chain(METADATA_CHANGES).chain(SIGNALS);
    number != nr::CREAT && all.any(|restarted| *restarted == number)
}

/// Calls that are made again when there is room after all.
const MAPPINGS: &[usize] = &[nr::MMAP, nr::MPROTECT, nr::MREMAP];

/// Half of what a jump reaches, so that every slot of the page is in reach.
const MAX_DISTANCE: usize = 1 << 30;
const ADDRESSES_TRIED: usize = 8;
const DISTANCE_BETWEEN_TRIES: usize = 64 << 20;

/// The instructions that make the calls: a page of the process.
pub struct RestartCode {
    page: usize,
    used_slots: usize,
}

impl RestartCode {
    /// A page near `function`: a jump reaches 2 GiB. The kernel takes an address only as a wish, so several are tried.
    pub fn near(function: usize) -> Result<RestartCode> {
        let start = function & !(PAGE_BYTES - 1);
        for step in 0..ADDRESSES_TRIED {
            let page = map_page(start.wrapping_sub(step * DISTANCE_BETWEEN_TRIES))?;
            if page.abs_diff(function) < MAX_DISTANCE {
                return Ok(RestartCode {
                    page,
                    used_slots: 0,
                });
            }
            // SAFETY: the page that was just mapped, and nothing uses it.
            unsafe { syscall(nr::MUNMAP, [page, PAGE_BYTES]) }?;
        }
        Err(Errno::OVERFLOW)
    }

    /// Changes a function of libc so that its call is made again after an interruption. Says whether such a call was found.
    ///
    /// # Safety
    /// `function` is the address of a function, no thread runs in it, and the process has one thread.
    pub unsafe fn apply_to(&mut self, function: usize) -> Result<bool> {
        // SAFETY: the caller's promise. A function that ends earlier is followed by others or by padding: code of libc's goes on for longer.
        let code = unsafe { core::slice::from_raw_parts(function as *const u8, SEARCHED_BYTES) };
        let Some((offset, number)) = find_call(code) else {
            return Ok(false);
        };
        let site = function + offset;
        let slot = self.page + self.used_slots * SLOT_BYTES;
        let back = site + CALL_BYTES;
        let (restarting, mapping);
        let instructions: &[u8] = if MAPPINGS.contains(&(number as usize)) {
            mapping = mapping_call(number, slot, back)?;
            &mapping
        } else {
            restarting = restarting_call(number, slot, back)?;
            &restarting
        };
        let slots = instructions.len().div_ceil(SLOT_BYTES);
        if self.used_slots + slots > PAGE_BYTES / SLOT_BYTES {
            return Err(Errno::OVERFLOW);
        }
        // Two bytes that do nothing come after the jump.
        let mut jump = [0xE9, 0, 0, 0, 0, 0x66, 0x90];
        jump[1..5].copy_from_slice(&distance(site + 5, slot)?);
        // SAFETY: a page of ours, and code that does not run now.
        unsafe {
            write_code(slot, instructions)?;
            write_code(site, &jump)?;
        }
        self.used_slots += slots;
        Ok(true)
    }
}

/// Maps a page of code, at `hint` where that address is free.
fn map_page(hint: usize) -> Result<usize> {
    const PRIVATE_ANONYMOUS: usize = 0x22;
    let words = [
        hint,
        PAGE_BYTES,
        READ | EXECUTE,
        PRIVATE_ANONYMOUS,
        usize::MAX,
        0,
    ];
    // SAFETY: a fresh mapping; the address is only a wish.
    unsafe { syscall(nr::MMAP, words) }
}

/// Where the first call is that is made again, and its number.
fn find_call(code: &[u8]) -> Option<(usize, u32)> {
    code.windows(CALL_BYTES)
        .enumerate()
        .find_map(|(offset, window)| match *window {
            [0xB8, a, b, c, d, 0x0F, 0x05] => {
                let number = u32::from_le_bytes([a, b, c, d]);
                let is_wanted =
                    is_restarted(number as usize) || MAPPINGS.contains(&(number as usize));
                is_wanted.then_some((offset, number))
            }
            _ => None,
        })
}

/// The instructions, which lie at `slot` and go on at `back`. They use no stack: the function may keep values below its stack pointer.
fn restarting_call(number: u32, slot: usize, back: usize) -> Result<[u8; 18]> {
    let [a, b, c, d] = number.to_le_bytes();
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

/// The same for a call that maps memory: refused for lack of memory, it is made again if [`data_limit::make_room`] says so. The stack below its
/// pointer is left alone, and all registers that arguments are in are as before.
///
/// A mapping is not filled at once (`MAP_POPULATE`): that is a wish which the kernel need not fulfil, and where init counts memory the filter refuses it.
fn mapping_call(number: u32, slot: usize, back: usize) -> Result<[u8; 99]> {
    // and r10d, ~MAP_POPULATE
    const WITHOUT_POPULATE: [u8; 7] = [0x41, 0x81, 0xE2, 0xFF, 0x7F, 0xFF, 0xFF];
    const NO_OPERATION: [u8; 7] = [0x0F, 0x1F, 0x80, 0, 0, 0, 0];
    let [a, b, c, d] = number.to_le_bytes();
    let m = match number as usize {
        nr::MMAP => WITHOUT_POPULATE,
        _ => NO_OPERATION,
    };
    let make_room = data_limit::make_room as *const () as usize;
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

fn distance(from: usize, to: usize) -> Result<[u8; 4]> {
    let bytes = to.wrapping_sub(from) as isize;
    i32::try_from(bytes)
        .map(i32::to_le_bytes)
        .map_err(|_| Errno::OVERFLOW)
}

const READ: usize = 1;
const WRITE: usize = 2;
const EXECUTE: usize = 4;

/// Writes over code. It cannot be executed meanwhile, and not be written afterwards.
unsafe fn write_code(address: usize, code: &[u8]) -> Result<()> {
    let start = address & !(PAGE_BYTES - 1);
    let length = (address + code.len() - start).next_multiple_of(PAGE_BYTES);
    // SAFETY: the caller's promise: nothing runs there. This code itself lies elsewhere.
    unsafe {
        syscall(nr::MPROTECT, [start, length, READ | WRITE])?;
        core::ptr::copy_nonoverlapping(code.as_ptr(), address as *mut u8, code.len());
        syscall(nr::MPROTECT, [start, length, READ | EXECUTE]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINCORE: usize = 27;

    /// A function like those of libc: `mov eax, kill; syscall; ret`.
    fn page_with_kill() -> usize {
        let page = RestartCode::near(0x1000_0000).unwrap().page;
        let [a, b, c, d] = (nr::KILL as u32).to_le_bytes();
        // SAFETY: a fresh page of ours.
        unsafe { write_code(page, &[0xB8, a, b, c, d, 0x0F, 0x05, 0xC3]).unwrap() };
        page
    }

    #[test]
    fn a_changed_function_makes_the_same_call() {
        let page = page_with_kill();
        let mut code = RestartCode::near(page).unwrap();
        // SAFETY: a function of ours, which nothing runs.
        assert!(unsafe { code.apply_to(page) }.unwrap());
        // SAFETY: the jump has taken the place of the call.
        assert_eq!(unsafe { *(page as *const u8) }, 0xE9);
        // SAFETY: the function takes two numbers and returns one.
        let kill: extern "C" fn(i32, i32) -> i64 = unsafe { core::mem::transmute(page) };
        assert_eq!(kill(crate::sys::own_pid(), 0), 0);
        assert_eq!(kill(crate::sys::own_pid(), 999), -22);
    }

    #[test]
    fn a_mapping_that_the_limit_refuses_is_made_again_when_there_is_room() {
        let page = RestartCode::near(0x1000_0000).unwrap().page;
        let [a, b, c, d] = (nr::MMAP as u32).to_le_bytes();
        // `mov r10, rcx; mov eax, mmap; syscall; ret`
        let code = [0x49, 0x89, 0xCA, 0xB8, a, b, c, d, 0x0F, 0x05, 0xC3];
        // SAFETY: a fresh page of ours.
        unsafe { write_code(page, &code).unwrap() };
        // SAFETY: a function of ours, which nothing runs.
        assert!(unsafe { RestartCode::near(page).unwrap().apply_to(page) }.unwrap());
        // SAFETY: the function takes six numbers and returns one.
        let map: extern "C" fn(usize, usize, usize, usize, isize, usize) -> isize =
            unsafe { core::mem::transmute(page) };
        let private_anonymous = 0x22;
        assert!(map(0, PAGE_BYTES, 3, private_anonymous, -1, 0) > 0);
        let populated = map(0, PAGE_BYTES, 3, private_anonymous | 0x8000, -1, 0);
        let mut is_there = 0u8;
        // SAFETY: the page that was mapped, and memory for the one byte that says whether it is there.
        unsafe {
            let words = [populated as usize, PAGE_BYTES, &raw mut is_there as usize];
            syscall(MINCORE, words).unwrap();
        }
        assert_eq!(is_there & 1, 0, "the page was there at once");
        assert_eq!(map(0, 1 << 60, 3, private_anonymous, -1, 0), -12);
    }

    #[test]
    fn only_calls_that_linux_never_interrupts_are_changed() {
        let code = |number: usize| {
            let [a, b, c, d] = (number as u32).to_le_bytes();
            [0x90, 0xB8, a, b, c, d, 0x0F, 0x05]
        };
        assert_eq!(find_call(&code(nr::RENAME)), Some((1, 82)));
        for number in [nr::READ, nr::OPENAT, nr::CREAT, nr::FUTEX] {
            assert_eq!(find_call(&code(number)), None);
        }
    }
}
