//! Making the threads anew in a copy of the process.

use super::saved::{RESTARTED, SEQUENCE_BYTES, SEQUENCE_OFFSET, SavedThread, entry};
use crate::arch::{self, SEQUENCE_SIGNATURE};
use crate::sys::{Errno, Pid, Result, clone_flags, nr, syscall};
use core::sync::atomic::Ordering::SeqCst;

/// Makes one thread anew, on a temporary stack.
pub(super) fn start_thread(stack: usize, index: usize) -> Result<()> {
    const FLAGS: usize = clone_flags::VM
        | 0x200 // working directory and umask
        | 0x400 // descriptors
        | 0x800 // signal handlers
        | clone_flags::THREAD
        | 0x0004_0000 // System V undo
        | 0x0008_0000 // the thread pointer
        | 0x0010_0000 // its id is written to memory
        | 0x0020_0000; // and cleared there when it ends
    // SAFETY: nothing else uses the entry now.
    let thread = unsafe { &*entry(index) };
    // SAFETY: the new thread starts on a stack of its own, aligned to 16, with its entry. The thread pointer and the address of its id are
    // those that it had.
    let outcome = unsafe {
        arch::start_thread(
            FLAGS,
            stack,
            thread.id_address,
            thread.thread_pointer,
            restart,
            &raw const *thread as usize,
        )
    };
    if outcome < 0 {
        return Err(Errno(-outcome as i32));
    }
    thread.new_id.store(outcome as Pid, SeqCst);
    Ok(())
}

/// Runs in a thread that was made anew: registers what the kernel must know of it, and returns from the signal that had stopped it.
unsafe extern "C" fn restart(thread: usize) -> ! {
    // SAFETY: the entry stays as it is until this thread has counted itself.
    let thread = unsafe { &*(thread as *const SavedThread) };
    // SAFETY: the list and the area that this thread had registered before it was copied, and buffers of ours.
    unsafe {
        if thread.robust_list != 0 {
            let _ = syscall(
                nr::SET_ROBUST_LIST,
                [thread.robust_list, thread.robust_bytes],
            );
        }
        register_sequences(thread.thread_pointer);
        const SET_NAME: usize = 15;
        let _ = syscall(
            nr::PRCTL,
            [SET_NAME, thread.name.as_ptr() as usize, 0, 0, 0],
        );
        if thread.processors_bytes > 0 {
            let mask = thread.processors.as_ptr() as usize;
            let _ = syscall(nr::SCHED_SETAFFINITY, [0, thread.processors_bytes, mask]);
        }
    }
    let context = thread.context;
    // SAFETY: the context lies in the frame that the kernel made when it stopped the thread.
    unsafe { arch::resume_context(RESTARTED.as_ptr(), context) }
}

/// Registers libc's area for restartable sequences, as libc does when it starts a thread.
pub(super) unsafe fn register_sequences(thread_pointer: usize) {
    let bytes = SEQUENCE_BYTES.load(SeqCst);
    if bytes > 0 {
        let area = thread_pointer.wrapping_add_signed(SEQUENCE_OFFSET.load(SeqCst));
        // SAFETY: the caller's promise: libc's area of the calling thread.
        let _ = unsafe { syscall(nr::RSEQ, [area, bytes, 0, SEQUENCE_SIGNATURE]) };
    }
}

/// A page of stack for each thread, until it is back on its own.
pub(super) struct TemporaryStacks {
    base: usize,
    bytes: usize,
}

impl TemporaryStacks {
    const STACK_BYTES: usize = 4096;

    pub(super) fn new(count: usize) -> Result<TemporaryStacks> {
        const READ_WRITE: usize = 3;
        const PRIVATE_ANONYMOUS: usize = 0x22;
        let bytes = count.max(1) * Self::STACK_BYTES;
        let words = [0, bytes, READ_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0];
        // SAFETY: a fresh mapping.
        let base = unsafe { syscall(nr::MMAP, words) }?;
        Ok(TemporaryStacks { base, bytes })
    }

    pub(super) fn top_of(&self, index: usize) -> usize {
        self.base + (index + 1) * Self::STACK_BYTES
    }
}

impl Drop for TemporaryStacks {
    fn drop(&mut self) {
        // SAFETY: our own mapping; every thread that started here has left it, or the process ends.
        let _ = unsafe { syscall(nr::MUNMAP, [self.base, self.bytes]) };
    }
}
