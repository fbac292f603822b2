//! System calls that are made again when a signal interrupts them.
//!
//! A call that init is notified of waits for init's answer. A signal ends this wait, and where the signal's handler does not ask for a restart
//! (Python's do not), the call fails with `EINTR`. Linux itself never interrupts these calls, so programs do not expect that. Whenever such a
//! call fails with `EINTR`, it was not done: the kernel goes on with it only after init's answer, and what init does in the place of the
//! caller it takes back when the caller does not wait any more (`files/perform.rs`). So it is safe to make the call again.
//!
//! This is done where libc makes the call. The instructions of its function that make it become a jump to a few instructions of ours
//! (`arch`: `restart_code`), which do the same until the outcome is another one. Everything in the process that uses libc profits: Python, and libraries in C.
//!
//! Calls that map memory are made again in the same way, when there was not enough and `walls/data_limit.rs` has made room.

use crate::arch::page_bytes;
use crate::arch::restart_code::{
    CALL_BYTES, DISTANCE_BETWEEN_TRIES, MAX_DISTANCE, SEARCHED_BYTES, code_has_changed, find_call,
    jump, mapping_call, restarting_call,
};
use crate::sys::{Errno, Result, nr, syscall};
use crate::walls::data_limit;
use crate::walls::seccomp::{CHANGES, METADATA_CHANGES};

const SLOT_BYTES: usize = 32;

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

/// Calls about sockets that init is notified of.
const SOCKETS: &[usize] = &[nr::LISTEN];

/// Whether a call is made again. Calls that open a file are not: Linux interrupts them too, and programs expect it.
fn is_restarted(number: usize) -> bool {
    let changes = CHANGES.iter().chain(METADATA_CHANGES);
    let mut all = changes.chain(SIGNALS).chain(SOCKETS);
    number != nr::CREAT && all.any(|restarted| *restarted == number)
}

/// Calls that are made again when there is room after all.
const MAPPINGS: &[usize] = &[nr::MMAP, nr::MPROTECT, nr::MREMAP];

const ADDRESSES_TRIED: usize = 8;

/// The instructions that make the calls: a page of the process.
pub struct RestartCode {
    page: usize,
    used_slots: usize,
}

impl RestartCode {
    /// A page near `function`, because a jump does not reach everything. The kernel takes an address only as a wish, so several are tried.
    pub fn near(function: usize) -> Result<RestartCode> {
        let start = function & !(page_bytes() - 1);
        for step in 0..ADDRESSES_TRIED {
            let page = map_page(start.wrapping_sub(step * DISTANCE_BETWEEN_TRIES))?;
            if page.abs_diff(function) < MAX_DISTANCE {
                return Ok(RestartCode {
                    page,
                    used_slots: 0,
                });
            }
            // SAFETY: the page that was just mapped, and nothing uses it.
            unsafe { syscall(nr::MUNMAP, [page, page_bytes()]) }?;
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
        let Some((offset, number)) = find_call(code, is_made_again) else {
            return Ok(false);
        };
        let site = function + offset;
        let slot = self.page + self.used_slots * SLOT_BYTES;
        let back = site + CALL_BYTES;
        let make_room = data_limit::make_room as *const () as usize;
        let (restarting, mapping);
        let instructions: &[u8] = if MAPPINGS.contains(&number) {
            mapping = mapping_call(number, slot, back, make_room)?;
            &mapping
        } else {
            restarting = restarting_call(number, slot, back)?;
            &restarting
        };
        let slots = instructions.len().div_ceil(SLOT_BYTES);
        if self.used_slots + slots > page_bytes() / SLOT_BYTES {
            return Err(Errno::OVERFLOW);
        }
        let jump = jump(site, slot)?;
        // SAFETY: a page of ours, and code that does not run now.
        unsafe {
            write_code(slot, instructions)?;
            write_code(site, &jump)?;
        }
        self.used_slots += slots;
        Ok(true)
    }
}

fn is_made_again(number: usize) -> bool {
    is_restarted(number) || MAPPINGS.contains(&number)
}

/// Maps a page of code, at `hint` where that address is free.
fn map_page(hint: usize) -> Result<usize> {
    const PRIVATE_ANONYMOUS: usize = 0x22;
    let words = [
        hint,
        page_bytes(),
        READ | EXECUTE,
        PRIVATE_ANONYMOUS,
        usize::MAX,
        0,
    ];
    // SAFETY: a fresh mapping; the address is only a wish.
    unsafe { syscall(nr::MMAP, words) }
}

const READ: usize = 1;
const WRITE: usize = 2;
const EXECUTE: usize = 4;

/// Writes over code. It cannot be executed meanwhile, and not be written afterwards.
unsafe fn write_code(address: usize, code: &[u8]) -> Result<()> {
    let start = address & !(page_bytes() - 1);
    let length = (address + code.len() - start).next_multiple_of(page_bytes());
    // SAFETY: the caller's promise: nothing runs there. This code itself lies elsewhere.
    unsafe {
        syscall(nr::MPROTECT, [start, length, READ | WRITE])?;
        core::ptr::copy_nonoverlapping(code.as_ptr(), address as *mut u8, code.len());
        code_has_changed(address, code.len());
        syscall(nr::MPROTECT, [start, length, READ | EXECUTE]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::restart_code::function_with_call;

    /// A function like those of libc, which makes this call.
    fn page_with_call(number: usize) -> usize {
        let page = RestartCode::near(0x1000_0000).unwrap().page;
        // SAFETY: a fresh page of ours.
        unsafe { write_code(page, &function_with_call(number)).unwrap() };
        page
    }

    #[test]
    fn a_changed_function_makes_the_same_call() {
        let page = page_with_call(nr::KILL);
        let mut code = RestartCode::near(page).unwrap();
        // SAFETY: a function of ours, which nothing runs.
        assert!(unsafe { code.apply_to(page) }.unwrap());
        // The jump has taken the place of the call.
        // SAFETY: as above.
        assert!(!unsafe { code.apply_to(page) }.unwrap());
        // SAFETY: the function takes two numbers and returns one.
        let kill: extern "C" fn(i32, i32) -> i64 = unsafe { core::mem::transmute(page) };
        assert_eq!(kill(crate::sys::own_pid(), 0), 0);
        assert_eq!(kill(crate::sys::own_pid(), 999), -22);
    }

    #[test]
    fn a_mapping_that_the_limit_refuses_is_made_again_when_there_is_room() {
        let page = page_with_call(nr::MMAP);
        // SAFETY: a function of ours, which nothing runs.
        assert!(unsafe { RestartCode::near(page).unwrap().apply_to(page) }.unwrap());
        // SAFETY: the function takes six numbers and returns one.
        let map: extern "C" fn(usize, usize, usize, usize, isize, usize) -> isize =
            unsafe { core::mem::transmute(page) };
        let private_anonymous = 0x22;
        assert!(map(0, page_bytes(), 3, private_anonymous, -1, 0) > 0);
        let populated = map(0, page_bytes(), 3, private_anonymous | 0x8000, -1, 0);
        let mut is_there = 0u8;
        // SAFETY: the page that was mapped, and memory for the one byte that says whether it is there.
        unsafe {
            let words = [populated as usize, page_bytes(), &raw mut is_there as usize];
            syscall(nr::MINCORE, words).unwrap();
        }
        assert_eq!(is_there & 1, 0, "the page was there at once");
        assert_eq!(map(0, 1 << 60, 3, private_anonymous, -1, 0), -12);
    }

    #[test]
    fn only_calls_that_linux_never_interrupts_are_changed() {
        let found = |number| {
            let found = find_call(&function_with_call(number), is_made_again);
            found.map(|(_, number)| number)
        };
        assert_eq!(found(nr::RENAMEAT), Some(nr::RENAMEAT));
        for number in [nr::READ, nr::OPENAT, nr::FUTEX] {
            assert_eq!(found(number), None);
        }
        assert!(
            is_made_again(nr::RENAME) && is_made_again(nr::LISTEN) && !is_made_again(nr::CREAT)
        );
    }
}
