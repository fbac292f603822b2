//! A fork that carries every thread of the process.
//!
//! `fork` copies one thread. A library that keeps a pool of threads then waits for ever in the copy, for workers that are not there. Here
//! every other thread is first stopped by a signal. Its handler notes where the kernel saved the thread's registers (the signal frame on
//! the thread's own stack), and what the kernel knows of the thread beside them. Then the process is copied. In the original the threads
//! go on. In the copy each thread is made anew, with the same thread pointer and its memory as it was, and returns from the signal: the
//! kernel puts its registers, its signal mask and its floating point state back. A thread that slept in a system call sleeps in it again,
//! or sees it interrupted.
//!
//! Nothing of libc may be used between [`StoppedThreads::stop_others`] and the end of a stop: a stopped thread may hold any of its locks. No
//! handlers of libc's `fork` are needed either: a lock that a thread holds is released by that thread, in the copy too.
//!
//! What is not carried: a thread's pending signals, its own timers, its priority. Thread ids change; the caller learns the new ones by
//! [`new_id_of`].

mod kernel;
mod restart;
mod saved;
mod stop;

use crate::arch::{clone_arguments, thread_pointer};
use crate::forks::side_fork::{HelperParent, fork_by_helper};
use crate::sys::{
    self, Errno, Forked, Pid, Result, clone_flags, close, monotonic_milliseconds, nr, open,
    open_flags, signals, syscall,
};
use core::ffi::c_void;
use core::sync::atomic::Ordering::SeqCst;
use kernel::{own_id_address, robust_list, wait_for_change};
use restart::{TemporaryStacks, register_sequences, start_thread};
use saved::{
    CLAIMED, IS_STOPPING, RESTARTED, SEPARATIONS, SEQUENCE_BYTES, SEQUENCE_OFFSET, entry,
    forget_entries,
};
use stop::{install_handler, release, stop_all};

/// How many threads can be carried beside the one that forks.
pub const MAX_THREADS: usize = 512;

/// Why the threads could not be stopped. All of them run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// What to tell the caller.
    pub errno: Errno,
    /// The thread that is in the way, or 0.
    pub thread: Pid,
}

impl From<Errno> for Obstacle {
    fn from(errno: Errno) -> Obstacle {
        Obstacle { errno, thread: 0 }
    }
}

/// Whether this process has other threads than the caller.
pub fn has_other_threads() -> bool {
    // The kernel refuses this for a process with several threads, and does nothing for one with a single thread. Unlike `/proc` it can be
    // asked behind every wall.
    sys::unshare(clone_flags::THREAD) == Err(Errno::INVAL)
}

/// The other threads of this process, stopped. They must be released, or made anew in a copy.
#[derive(Clone, Copy)]
pub struct StoppedThreads {
    count: usize,
    /// Where libc keeps the id of the thread that has stopped them.
    id_address: usize,
    /// The robust list of that thread, and how long its head is.
    robust_list: (usize, usize),
}

impl StoppedThreads {
    /// Stops every other thread of this process. The caller must have blocked all signals for itself.
    ///
    /// Fails, with every thread running again, if a thread blocks the signal, does not stop in time, or if there are too many.
    pub fn stop_others() -> core::result::Result<StoppedThreads, Obstacle> {
        // A kernel that does not tell where a thread's id lies in memory cannot be asked for it later, in a handler.
        let id_address = own_id_address()?;
        let robust_list = robust_list()?;
        // Without other threads `/proc` is not needed, which some walls close.
        if !has_other_threads() {
            forget_entries();
            return Ok(StoppedThreads {
                count: 0,
                id_address,
                robust_list,
            });
        }
        // It stays installed: a signal that was sent in vain may still arrive later, and its default is to end the process.
        install_handler()?;
        forget_entries();
        IS_STOPPING.store(true, SeqCst);
        let tasks = open(
            c"/proc/self/task",
            open_flags::RDONLY | open_flags::DIRECTORY,
            0,
        )?;
        let outcome = stop_all(tasks);
        close(tasks);
        match outcome {
            Ok(count) => Ok(StoppedThreads {
                count,
                id_address,
                robust_list,
            }),
            Err(obstacle) => {
                release();
                Err(obstacle)
            }
        }
    }

    /// Copies the process, with the caller as the only thread of the copy. The copy is a child of the caller's parent.
    ///
    /// # Safety
    /// The copy may use nothing of libc before [`StoppedThreads::start_again`].
    pub unsafe fn fork(self) -> Result<Forked> {
        // SAFETY: the caller's promise.
        unsafe { self.clone_with(clone_flags::PARENT) }
    }

    /// The same from a helper, which shares the memory of the process: a second helper makes the copy and is gone, so that the copy is adopted
    /// by the init of the namespaces that the helper lives in.
    ///
    /// # Safety
    /// As for [`StoppedThreads::fork`].
    pub unsafe fn fork_from_helper(self) -> Result<Forked> {
        unsafe fn call(stopped: *mut c_void) -> Pid {
            // SAFETY: what is passed below, which lives through the call.
            match unsafe { (*stopped.cast::<StoppedThreads>()).clone_with(signals::CHLD as usize) }
            {
                Ok(Forked::Child) => 0,
                Ok(Forked::Parent(pid)) => pid,
                Err(Errno(number)) => -number,
            }
        }
        let mut stopped = self;
        // SAFETY: the caller's promise.
        unsafe { fork_by_helper(HelperParent::Caller, call, (&raw mut stopped).cast()) }
    }

    /// Copies the process, with the thread that has stopped the others as the only one. `flags` say whose child the copy is.
    unsafe fn clone_with(self, flags: usize) -> Result<Forked> {
        const CHILD_CLEARTID: usize = 0x0020_0000;
        const CHILD_SETTID: usize = 0x0100_0000;
        let flags = flags | CHILD_CLEARTID | CHILD_SETTID;
        let words = clone_arguments(flags, 0, 0, self.id_address, 0);
        // SAFETY: no stack: the copy goes on on a copy of this one. The address is where libc keeps the id of that thread.
        match unsafe { syscall(nr::CLONE, words) }? {
            0 => {
                let (list, bytes) = self.robust_list;
                // SAFETY: the list and the area that the thread had registered before, which lie in the copy too. A copy that a helper
                // made has no area yet, for the helper has none.
                unsafe {
                    let _ = syscall(nr::SET_ROBUST_LIST, [list, bytes]);
                    register_sequences(thread_pointer().unwrap_or(0));
                }
                Ok(Forked::Child)
            }
            pid => Ok(Forked::Parent(pid as Pid)),
        }
    }

    /// In the original: lets the threads go on.
    pub fn release(self) {
        release();
    }

    /// In the original, after a copy that is the head of a fork: lets the threads go on. Before anything else each parts from that fork.
    pub fn release_separated(self) {
        SEPARATIONS.fetch_add(1, SeqCst);
        release();
    }

    /// In a copy: makes the threads anew. They run when this returns.
    ///
    /// An error leaves only some of them: the process must end then.
    pub fn start_again(self) -> Result<()> {
        IS_STOPPING.store(false, SeqCst);
        RESTARTED.store(0, SeqCst);
        let stacks = TemporaryStacks::new(self.count)?;
        for index in 0..self.count {
            start_when_there_is_room(stacks.top_of(index), index)?;
        }
        // Until a thread has left its temporary stack and its entry, neither may be used again.
        while (RESTARTED.load(SeqCst) as usize) < self.count {
            // SAFETY: no arguments.
            let _ = unsafe { syscall(nr::SCHED_YIELD, []) };
        }
        Ok(())
    }
}

/// Makes one thread anew. In a session that is near its limit of processes and threads, those of the head that is being ended count until they are
/// reaped.
fn start_when_there_is_room(stack: usize, index: usize) -> Result<()> {
    const MAX_WAIT_MILLISECONDS: u64 = 5_000;
    let start = monotonic_milliseconds();
    loop {
        match start_thread(stack, index) {
            Err(Errno::AGAIN) if monotonic_milliseconds() - start < MAX_WAIT_MILLISECONDS => {
                let started = RESTARTED.load(SeqCst);
                wait_for_change(&RESTARTED, started);
            }
            outcome => return outcome,
        }
    }
}

/// The id that a thread has now which had the id `old` when it was stopped; or `None`.
pub fn new_id_of(old: Pid) -> Option<Pid> {
    let count = (CLAIMED.load(SeqCst) as usize).min(MAX_THREADS);
    (0..count).find_map(|index| {
        // SAFETY: threads write to the entries only while they are stopped and while they start again; neither is under way.
        let thread = unsafe { &*entry(index) };
        (thread.id.load(SeqCst) == old).then(|| thread.new_id.load(SeqCst))
    })
}

/// Tells where libc keeps each thread's area for restartable sequences, seen from its thread pointer, and how long it is.
pub fn remember_restartable_sequences(offset: isize, bytes: usize) {
    SEQUENCE_OFFSET.store(offset, SeqCst);
    SEQUENCE_BYTES.store(bytes, SeqCst);
}
