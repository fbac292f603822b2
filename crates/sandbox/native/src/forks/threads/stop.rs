//! Stopping every other thread of the process: the signal, its handler, and which threads have stopped.

use super::kernel::{
    own_id, own_id_address, own_name, own_processors, robust_list, wait_for_change, wake_all,
};
use super::saved::{CLAIMED, IS_STOPPING, PARKED, RELEASES, SEPARATIONS, entry};
use super::{MAX_THREADS, Obstacle};
use crate::arch::{return_from_signal, thread_pointer};
use crate::init::stopped::may_be_in_call;
use crate::init::sweep::each_entry;
use crate::sys::text::{Text, hexadecimal};
use crate::sys::{
    self, Errno, Pid, Result, STAT_BYTES, close, each_line_at, monotonic_milliseconds, nr,
    open_flags, read_stat, signals, syscall,
};
use crate::walls::landlock::part_thread_from_forks;
use core::ffi::c_void;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::SeqCst;

/// How long the threads may take until all of them have stopped. A thread that computes stops at once.
const MAX_STOP_MILLISECONDS: u64 = 200;
/// How long they may take if one of them waits for a processor, for a disk, or for the start of a program: the machine is busy.
const MAX_BUSY_STOP_MILLISECONDS: u64 = 3_000;
/// How long a thread may block the signal, unless it waits in one of these ways and has used no processor.
const MAX_BLOCKED_MILLISECONDS: u64 = 20;
/// [`MAX_BLOCKED_MILLISECONDS`] in the unit of `/proc`. A thread that used as much and still blocks the signal does so on purpose.
const MAX_BLOCKED_TICKS: u64 = 2;
/// The code of a signal that was queued (`SI_QUEUE`). Those that libc sends to threads have another.
const SENT_BY_US: i32 = -1;
/// What handled the signal before; 0 or 1 if nothing did.
static FORMER_HANDLER: AtomicUsize = AtomicUsize::new(0);

/// Signals threads until every one that there is has stopped; threads that still ran may have started others meanwhile.
pub(super) fn stop_all(tasks: sys::Fd) -> core::result::Result<usize, Obstacle> {
    let own = own_id();
    let start = monotonic_milliseconds();
    let mut signalled = SignalledThreads::none();
    loop {
        let mut outcome = Ok(());
        let mut new = 0;
        each_entry(tasks, |thread| {
            if outcome.is_ok() && thread != own && !signalled.contains(thread) {
                let end = start + MAX_BUSY_STOP_MILLISECONDS;
                outcome = signal_thread(tasks, thread, end).and_then(|()| signalled.add(thread));
                new += 1;
            }
        });
        outcome?;
        if new == 0 {
            return Ok(signalled.count);
        }
        while (PARKED.load(SeqCst) as usize) < signalled.count {
            let parked = PARKED.load(SeqCst);
            let passed = monotonic_milliseconds() - start;
            if (parked as usize) < signalled.count && passed > MAX_STOP_MILLISECONDS {
                let thread = signalled.first_that_runs().unwrap_or(0);
                if passed > MAX_BUSY_STOP_MILLISECONDS || !may_be_in_call(tasks, thread) {
                    return Err(Obstacle {
                        errno: Errno::AGAIN,
                        thread,
                    });
                }
            }
            signalled.forget_ended(tasks);
            wait_for_change(&PARKED, parked);
        }
    }
}

/// The threads that were told to stop.
pub(super) struct SignalledThreads {
    ids: [Pid; MAX_THREADS],
    count: usize,
}

impl SignalledThreads {
    fn none() -> SignalledThreads {
        SignalledThreads {
            ids: [0; MAX_THREADS],
            count: 0,
        }
    }

    fn contains(&self, thread: Pid) -> bool {
        self.ids[..self.count].contains(&thread)
    }

    fn add(&mut self, thread: Pid) -> core::result::Result<(), Obstacle> {
        let slot = self.ids.get_mut(self.count).ok_or(Obstacle {
            errno: Errno::OVERFLOW,
            thread,
        })?;
        *slot = thread;
        self.count += 1;
        Ok(())
    }

    /// A thread that ended instead of stopping is not waited for.
    fn forget_ended(&mut self, tasks: sys::Fd) {
        let mut index = 0;
        while index < self.count {
            if !has_stopped(self.ids[index]) && is_ended(tasks, self.ids[index]) {
                self.count -= 1;
                self.ids[index] = self.ids[self.count];
            } else {
                index += 1;
            }
        }
    }

    fn first_that_runs(&self) -> Option<Pid> {
        self.ids[..self.count]
            .iter()
            .copied()
            .find(|thread| !has_stopped(*thread))
    }
}

pub(super) fn has_stopped(thread: Pid) -> bool {
    let count = (CLAIMED.load(SeqCst) as usize).min(MAX_THREADS);
    // SAFETY: an entry below this number may still be written to, but its id is atomic.
    (0..count).any(|index| unsafe { &(*entry(index)).id }.load(SeqCst) == thread)
}

pub(super) fn is_ended(tasks: sys::Fd, thread: Pid) -> bool {
    Text::<32>::new(format_args!("{thread}"))
        .and_then(|path| sys::open_at(tasks, path.as_c_str(), open_flags::PATH, 0))
        .map(close)
        .is_err()
}

/// Tells a thread to stop. `end` is the time until which a busy machine is waited for.
pub(super) fn signal_thread(
    tasks: sys::Fd,
    thread: Pid,
    end: u64,
) -> core::result::Result<(), Obstacle> {
    let start = monotonic_milliseconds();
    let ticks = cpu_ticks(tasks, thread);
    while blocks_the_signal(tasks, thread)? {
        // libc blocks it as well, for the moment in which a thread starts, ends, or starts a program.
        let now = monotonic_milliseconds();
        let is_held_up = now < end
            && may_be_in_call(tasks, thread)
            && cpu_ticks(tasks, thread) < ticks + MAX_BLOCKED_TICKS;
        if now - start > MAX_BLOCKED_MILLISECONDS && !is_held_up {
            return Err(Obstacle {
                errno: Errno::PERM,
                thread,
            });
        }
        wait_for_change(&PARKED, PARKED.load(SeqCst));
    }
    // `siginfo`: number, error, code, padding, sender.
    let mut information = [0i32; 32];
    information[0] = signals::STOP_THREAD;
    information[2] = SENT_BY_US;
    information[4] = sys::own_pid();
    let words = [
        sys::own_pid() as usize,
        thread as usize,
        signals::STOP_THREAD as usize,
        information.as_ptr() as usize,
    ];
    // SAFETY: the structure lives through the call.
    match unsafe { syscall(nr::RT_TGSIGQUEUEINFO, words) } {
        // It has ended meanwhile; `forget_ended` sees that.
        Ok(_) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => Err(Obstacle { errno, thread }),
    }
}

/// The processor time that a thread has used.
fn cpu_ticks(tasks: sys::Fd, thread: Pid) -> u64 {
    let mut buffer = [0; STAT_BYTES];
    read_stat(tasks, thread, &mut buffer).map_or(0, |stat| stat.cpu_ticks())
}

/// A thread that blocks this signal would never stop.
pub(super) fn blocks_the_signal(tasks: sys::Fd, thread: Pid) -> Result<bool> {
    let path = Text::<32>::new(format_args!("{thread}/status"))?;
    let mut blocked = 0;
    let read = each_line_at(tasks, path.as_c_str(), |line| {
        if let Some(mask) = line.strip_prefix(b"SigBlk:") {
            blocked = hexadecimal(mask.trim_ascii()).unwrap_or(u64::MAX);
        }
    });
    match read {
        Ok(()) => Ok(blocked & 1 << (signals::STOP_THREAD - 1) != 0),
        // Ended.
        Err(Errno::NOENT | Errno::SRCH) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// The signal's handler, on the stack of the thread that shall stop. Uses nothing of libc.
pub(super) extern "C" fn park(signal: i32, information: *mut c_void, context: *mut c_void) {
    // SAFETY: the kernel's structure: number, error, code.
    if unsafe { *information.cast::<i32>().add(2) } != SENT_BY_US {
        return call_former_handler(signal, information, context);
    }
    let generation = RELEASES.load(SeqCst);
    let partings = SEPARATIONS.load(SeqCst);
    if !IS_STOPPING.load(SeqCst) {
        return;
    }
    let index = CLAIMED.fetch_add(1, SeqCst) as usize;
    if index >= MAX_THREADS {
        return;
    }
    // SAFETY: this entry is this thread's alone until it is released.
    let thread = unsafe { &mut *entry(index) };
    thread.context = context as usize;
    thread.thread_pointer = thread_pointer().unwrap_or(0);
    thread.id_address = own_id_address().unwrap_or(0);
    (thread.robust_list, thread.robust_bytes) = robust_list().unwrap_or((0, 0));
    thread.new_id.store(0, SeqCst);
    thread.name = own_name();
    thread.processors_bytes = own_processors(&mut thread.processors);
    thread.id.store(own_id(), SeqCst);
    PARKED.fetch_add(1, SeqCst);
    wake_all(&PARKED);
    while RELEASES.load(SeqCst) == generation {
        wait_for_change(&RELEASES, generation);
    }
    if SEPARATIONS.load(SeqCst) != partings {
        let _ = part_thread_from_forks();
    }
}

/// The signal came from libc, which uses it too: its own handler, which ours has taken the place of, hears of it.
fn call_former_handler(signal: i32, information: *mut c_void, context: *mut c_void) {
    const IGNORED: usize = 1;
    let former = FORMER_HANDLER.load(SeqCst);
    if former > IGNORED {
        // SAFETY: the handler that libc had installed for this signal, which takes these three.
        let handler: extern "C" fn(i32, *mut c_void, *mut c_void) =
            unsafe { core::mem::transmute(former) };
        handler(signal, information, context);
    }
}

pub(super) fn release() {
    IS_STOPPING.store(false, SeqCst);
    RELEASES.fetch_add(1, SeqCst);
    wake_all(&RELEASES);
}

/// `struct sigaction` as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Action {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

pub(super) fn install_handler() -> Result<()> {
    const SIGINFO: usize = 4;
    const RESTORER: usize = 0x0400_0000;
    const RESTART: usize = 0x1000_0000;
    let action = Action {
        handler: park as *const () as usize,
        flags: SIGINFO | RESTORER | RESTART,
        restorer: return_from_signal as *const () as usize,
        mask: u64::MAX,
    };
    let mut former = Action {
        handler: 0,
        flags: 0,
        restorer: 0,
        mask: 0,
    };
    let words = [
        signals::STOP_THREAD as usize,
        &raw const action as usize,
        &raw mut former as usize,
        8,
    ];
    // SAFETY: the kernel's structures, which live through the call; their masks are eight bytes.
    unsafe { syscall(nr::RT_SIGACTION, words) }?;
    if former.handler != action.handler {
        FORMER_HANDLER.store(former.handler, SeqCst);
    }
    Ok(())
}
