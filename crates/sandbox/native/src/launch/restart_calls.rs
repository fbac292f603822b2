//! System calls that are made again when a signal interrupts them.
//!
//! A call that init is notified of waits for init's answer. A signal ends this wait, and where the signal's handler does not ask for a restart
//! (Python's do not), the call fails with `EINTR`. Linux itself never interrupts these calls, so programs do not expect that. Whenever such a
//! call fails with `EINTR`, it was not done: the kernel goes on with it only after init's answer, and what init does in the place of the
//! caller it takes back when the caller does not wait any more (`files/perform.rs`). So it is safe to make the call again.
//!
//! This is done where libc makes the call. The instructions `mov eax, NUMBER; syscall` of its function become a jump to a few instructions
//! of ours, which do the same until the outcome is another one. Everything in the process that uses libc profits: Python, and libraries in C.

use crate::sys::{Errno, Result, nr, syscall};
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
        if self.used_slots == PAGE_BYTES / SLOT_BYTES {
            return Err(Errno::OVERFLOW);
        }
        let instructions = restarting_call(number, slot, site + CALL_BYTES)?;
        // Two bytes that do nothing come after the jump.
        let mut jump = [0xE9, 0, 0, 0, 0, 0x66, 0x90];
        jump[1..5].copy_from_slice(&distance(site + 5, slot)?);
        // SAFETY: a page of ours, and code that does not run now.
        unsafe {
            write_code(slot, &instructions)?;
            write_code(site, &jump)?;
        }
        self.used_slots += 1;
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
                is_restarted(number as usize).then_some((offset, number))
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
