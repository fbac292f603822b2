//! A fork that carries every thread of the process.
//!
//! `fork` copies one thread. A library that keeps a pool of threads then waits for ever in the copy, for workers that are not there. Here
//! every other thread is first stopped by a signal. Its handler notes where the kernel saved the thread's registers (the signal frame on
//! the thread's own stack), and what the kernel knows of the thread beside them. Then the process is copied. In the original the threads
//! go on. In the copy each thread is made anew, with the same thread pointer and its memory as it was, and returns from the signal: the
//! kernel puts its registers, its signal mask and its floating point state back. A thread that slept in a system call sleeps in it again,
//! or sees it interrupted.
//!
//! Nothing of libc may be used between [`Stopped::stop_others`] and the end of a stop: a stopped thread may hold any of its locks. No
//! handlers of libc's `fork` are needed either: a lock that a thread holds is released by that thread, in the copy too.
//!
//! What is not carried: a thread's pending signals, its own timers, its priority. Thread ids change; the caller learns the new ones by
//! [`new_id_of`].

use crate::forks::side_fork::{HelperParent, fork_by_helper};
use crate::init::stillness::is_runnable;
use crate::init::sweep::each_entry;
use crate::sys::text::{Text, hexadecimal};
use crate::sys::{
    self, Errno, Forked, Pid, Result, clone_flags, close, each_line_at, monotonic_milliseconds, nr,
    open, open_flags, signals, syscall,
};
use crate::walls::landlock::part_thread_from_forks;
use core::arch::{asm, naked_asm};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicIsize, AtomicU32, AtomicUsize, Ordering::SeqCst,
};

/// How many threads can be carried beside the one that forks.
pub const MAX_THREADS: usize = 512;

/// How long the threads may take until all of them have stopped. A thread that computes stops at once.
const MAX_STOP_MILLISECONDS: u64 = 200;
/// How long they may take if one of them waits for a processor all the time: the machine is busy.
const MAX_BUSY_STOP_MILLISECONDS: u64 = 3_000;

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
pub struct Stopped {
    count: usize,
    /// Where libc keeps the id of the thread that has stopped them.
    id_address: usize,
    /// The robust list of that thread, and how long its head is.
    robust_list: (usize, usize),
}

impl Stopped {
    /// Stops every other thread of this process. The caller must have blocked all signals for itself.
    ///
    /// Fails, with every thread running again, if a thread blocks the signal, does not stop in time, or if there are too many.
    pub fn stop_others() -> core::result::Result<Stopped, Obstacle> {
        // A kernel that does not tell where a thread's id lies in memory cannot be asked for it later, in a handler.
        let id_address = own_id_address()?;
        let robust_list = robust_list()?;
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
            Ok(count) => Ok(Stopped {
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
    /// The copy may use nothing of libc before [`Stopped::start_again`].
    pub unsafe fn fork(self) -> Result<Forked> {
        // SAFETY: the caller's promise.
        unsafe { self.clone_with(clone_flags::PARENT) }
    }

    /// The same from a helper, which shares the memory of the process: a second helper makes the copy and is gone, so that the copy is adopted
    /// by the init of the namespaces that the helper lives in.
    ///
    /// # Safety
    /// As for [`Stopped::fork`].
    pub unsafe fn fork_from_helper(self) -> Result<Forked> {
        unsafe fn call(stopped: *mut c_void) -> Pid {
            // SAFETY: what is passed below, which lives through the call.
            match unsafe { (*stopped.cast::<Stopped>()).clone_with(signals::CHLD as usize) } {
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
        // SAFETY: no stack: the copy goes on on a copy of this one. The address is where libc keeps the id of that thread.
        match unsafe { syscall(nr::CLONE, [flags, 0, 0, self.id_address, 0]) }? {
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
    pub fn release_parted(self) {
        PARTINGS.fetch_add(1, SeqCst);
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
            start_thread(stacks.top_of(index), index)?;
        }
        // Until a thread has left its temporary stack and its entry, neither may be used again.
        while (RESTARTED.load(SeqCst) as usize) < self.count {
            // SAFETY: no arguments.
            let _ = unsafe { syscall(nr::SCHED_YIELD, []) };
        }
        Ok(())
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

/// What is needed to make a thread anew.
#[repr(C)]
struct SavedThread {
    /// The address of its `ucontext`, in the signal frame on its stack.
    context: usize,
    /// Its thread pointer (the base of `fs`).
    thread_pointer: usize,
    /// Where libc keeps its id, which the kernel clears when the thread ends.
    id_address: usize,
    robust_list: usize,
    robust_bytes: usize,
    /// Written last: an entry whose id is 0 is not complete.
    id: AtomicI32,
    new_id: AtomicI32,
    name: [u8; 16],
    /// On which processors it may run; how many bytes of it the kernel filled in.
    processors: [u8; 128],
    processors_bytes: usize,
}

struct Entries(UnsafeCell<[SavedThread; MAX_THREADS]>);

// SAFETY: each stopped thread writes to the entry that it claimed, and the thread that stopped it reads them only after that.
unsafe impl Sync for Entries {}

static ENTRIES: Entries = Entries(UnsafeCell::new(
    [const {
        SavedThread {
            context: 0,
            thread_pointer: 0,
            id_address: 0,
            robust_list: 0,
            robust_bytes: 0,
            id: AtomicI32::new(0),
            new_id: AtomicI32::new(0),
            name: [0; 16],
            processors: [0; 128],
            processors_bytes: 0,
        }
    }; MAX_THREADS],
));

/// Whether threads that get the signal shall stop.
static IS_STOPPING: AtomicBool = AtomicBool::new(false);
/// How many entries are taken.
static CLAIMED: AtomicU32 = AtomicU32::new(0);
/// How many threads have stopped.
static PARKED: AtomicU32 = AtomicU32::new(0);
/// Changes when the stopped threads shall go on.
static RELEASES: AtomicU32 = AtomicU32::new(0);
/// Changes when the stopped threads shall part from a fork before they go on.
static PARTINGS: AtomicU32 = AtomicU32::new(0);
/// How many threads of a copy run again.
static RESTARTED: AtomicU32 = AtomicU32::new(0);
static SEQUENCE_OFFSET: AtomicIsize = AtomicIsize::new(0);
static SEQUENCE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Empties the entries of the last stop.
fn forget_entries() {
    let count = (CLAIMED.swap(0, SeqCst) as usize).min(MAX_THREADS);
    for index in 0..count {
        // SAFETY: no thread is stopped, so none writes to an entry; the id is atomic.
        unsafe { &(*entry(index)).id }.store(0, SeqCst);
    }
    PARKED.store(0, SeqCst);
}

fn entry(index: usize) -> *mut SavedThread {
    ENTRIES.0.get().cast::<SavedThread>().wrapping_add(index)
}

/// Signals threads until every one that there is has stopped; threads that still ran may have started others meanwhile.
fn stop_all(tasks: sys::Fd) -> core::result::Result<usize, Obstacle> {
    let own = own_id();
    let start = monotonic_milliseconds();
    let mut signalled = SignalledThreads::none();
    loop {
        let mut outcome = Ok(());
        let mut new = 0;
        each_entry(tasks, |thread| {
            if outcome.is_ok() && thread != own && !signalled.contains(thread) {
                outcome = signal_thread(tasks, thread).and_then(|()| signalled.add(thread));
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
                if passed > MAX_BUSY_STOP_MILLISECONDS || !is_runnable(tasks, thread) {
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
struct SignalledThreads {
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

fn has_stopped(thread: Pid) -> bool {
    let count = (CLAIMED.load(SeqCst) as usize).min(MAX_THREADS);
    // SAFETY: an entry below this number may still be written to, but its id is atomic.
    (0..count).any(|index| unsafe { &(*entry(index)).id }.load(SeqCst) == thread)
}

fn is_ended(tasks: sys::Fd, thread: Pid) -> bool {
    Text::<32>::new(format_args!("{thread}"))
        .and_then(|path| sys::open_at(tasks, path.as_c_str(), open_flags::PATH, 0))
        .map(close)
        .is_err()
}

fn signal_thread(tasks: sys::Fd, thread: Pid) -> core::result::Result<(), Obstacle> {
    if blocks_the_signal(tasks, thread)? {
        return Err(Obstacle {
            errno: Errno::PERM,
            thread,
        });
    }
    let words = [
        sys::own_pid() as usize,
        thread as usize,
        signals::STOP_THREAD as usize,
    ];
    // SAFETY: no pointers.
    match unsafe { syscall(nr::TGKILL, words) } {
        // It has ended meanwhile; `forget_ended` sees that.
        Ok(_) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => Err(Obstacle { errno, thread }),
    }
}

/// A thread that blocks every signal, as the background threads of jemalloc do, would never stop.
fn blocks_the_signal(tasks: sys::Fd, thread: Pid) -> Result<bool> {
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
extern "C" fn park(_signal: i32, _information: *mut c_void, context: *mut c_void) {
    let generation = RELEASES.load(SeqCst);
    let partings = PARTINGS.load(SeqCst);
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
    if PARTINGS.load(SeqCst) != partings {
        let _ = part_thread_from_forks();
    }
}

fn release() {
    IS_STOPPING.store(false, SeqCst);
    RELEASES.fetch_add(1, SeqCst);
    wake_all(&RELEASES);
}

/// Makes one thread anew, on a temporary stack.
fn start_thread(stack: usize, index: usize) -> Result<()> {
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
    let outcome: isize;
    // SAFETY: the new thread starts on a stack of its own, aligned to 16, with its entry in a register that `clone` keeps, and never
    // returns here. The thread pointer and the address of its id are those that it had.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov rdi, r12",
            "call {restart}",
            "ud2",
            "2:",
            restart = sym restart,
            inlateout("rax") nr::CLONE as isize => outcome,
            inlateout("rdi") FLAGS => _,
            inlateout("rsi") stack => _,
            inlateout("rdx") thread.id_address => _,
            inlateout("r10") thread.id_address => _,
            inlateout("r8") thread.thread_pointer => _,
            in("r12") &raw const *thread,
            lateout("r9") _,
            lateout("rcx") _,
            lateout("r11") _,
            clobber_abi("C"),
        );
    }
    if outcome < 0 {
        return Err(Errno(-outcome as i32));
    }
    thread.new_id.store(outcome as Pid, SeqCst);
    Ok(())
}

/// Runs in a thread that was made anew: registers what the kernel must know of it, and returns from the signal that had stopped it.
unsafe extern "C" fn restart(thread: *const SavedThread) -> ! {
    // SAFETY: the entry stays as it is until this thread has counted itself.
    let thread = unsafe { &*thread };
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
    // SAFETY: the context lies in the frame that the kernel made when it stopped the thread; from there it takes all registers.
    // After the count the entry and this stack may be used by others, so everything is in registers.
    unsafe {
        asm!(
            "lock inc dword ptr [{count}]",
            "mov rsp, {context}",
            "mov eax, {sigreturn}",
            "syscall",
            "ud2",
            count = in(reg) &raw const RESTARTED,
            context = in(reg) context,
            sigreturn = const nr::RT_SIGRETURN,
            options(noreturn),
        )
    }
}

/// Registers libc's area for restartable sequences, as libc does when it starts a thread.
unsafe fn register_sequences(thread_pointer: usize) {
    const SIGNATURE: usize = 0x5305_3053;
    let bytes = SEQUENCE_BYTES.load(SeqCst);
    if bytes > 0 {
        let area = thread_pointer.wrapping_add_signed(SEQUENCE_OFFSET.load(SeqCst));
        // SAFETY: the caller's promise: libc's area of the calling thread.
        let _ = unsafe { syscall(nr::RSEQ, [area, bytes, 0, SIGNATURE]) };
    }
}

/// `struct sigaction` as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Action {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

fn install_handler() -> Result<()> {
    const SIGINFO: usize = 4;
    const RESTORER: usize = 0x0400_0000;
    const RESTART: usize = 0x1000_0000;
    let action = Action {
        handler: park as *const () as usize,
        flags: SIGINFO | RESTORER | RESTART,
        restorer: return_from_signal as *const () as usize,
        mask: u64::MAX,
    };
    let words = [
        signals::STOP_THREAD as usize,
        &raw const action as usize,
        0,
        8,
    ];
    // SAFETY: the kernel's structure, which lives through the call; its mask is eight bytes.
    unsafe { syscall(nr::RT_SIGACTION, words) }.map(drop)
}

/// Where a handler returns to.
#[unsafe(naked)]
unsafe extern "C" fn return_from_signal() {
    naked_asm!("mov eax, {sigreturn}", "syscall", "ud2", sigreturn = const nr::RT_SIGRETURN)
}

/// A page of stack for each thread, until it is back on its own.
struct TemporaryStacks {
    base: usize,
    bytes: usize,
}

impl TemporaryStacks {
    const STACK_BYTES: usize = 4096;

    fn new(count: usize) -> Result<TemporaryStacks> {
        const READ_WRITE: usize = 3;
        const PRIVATE_ANONYMOUS: usize = 0x22;
        let bytes = count.max(1) * Self::STACK_BYTES;
        let words = [0, bytes, READ_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0];
        // SAFETY: a fresh mapping.
        let base = unsafe { syscall(nr::MMAP, words) }?;
        Ok(TemporaryStacks { base, bytes })
    }

    fn top_of(&self, index: usize) -> usize {
        self.base + (index + 1) * Self::STACK_BYTES
    }
}

impl Drop for TemporaryStacks {
    fn drop(&mut self) {
        // SAFETY: our own mapping; every thread that started here has left it, or the process ends.
        let _ = unsafe { syscall(nr::MUNMAP, [self.base, self.bytes]) };
    }
}

fn own_id() -> Pid {
    // SAFETY: no arguments.
    unsafe { syscall(nr::GETTID, []) }.unwrap_or(0) as Pid
}

fn own_id_address() -> Result<usize> {
    const GET_TID_ADDRESS: usize = 40;
    let mut address = 0usize;
    let words = [GET_TID_ADDRESS, &raw mut address as usize, 0, 0, 0];
    // SAFETY: a word that lives through the call.
    unsafe { syscall(nr::PRCTL, words) }.map(|_| address)
}

fn thread_pointer() -> Result<usize> {
    const GET_FS: usize = 0x1003;
    let mut address = 0usize;
    // SAFETY: a word that lives through the call.
    unsafe { syscall(nr::ARCH_PRCTL, [GET_FS, &raw mut address as usize]) }.map(|_| address)
}

fn robust_list() -> Result<(usize, usize)> {
    let (mut list, mut bytes) = (0usize, 0usize);
    let words = [0, &raw mut list as usize, &raw mut bytes as usize];
    // SAFETY: two words that live through the call.
    unsafe { syscall(nr::GET_ROBUST_LIST, words) }.map(|_| (list, bytes))
}

fn own_name() -> [u8; 16] {
    const GET_NAME: usize = 16;
    let mut name = [0; 16];
    // SAFETY: a buffer of the size that the kernel fills.
    let _ = unsafe { syscall(nr::PRCTL, [GET_NAME, name.as_mut_ptr() as usize, 0, 0, 0]) };
    name
}

/// Fills in the processors that the calling thread may run on, and says how many bytes that took; 0 if the kernel has more of them.
fn own_processors(mask: &mut [u8; 128]) -> usize {
    let words = [0, mask.len(), mask.as_mut_ptr() as usize];
    // SAFETY: the buffer is ours and its length is told.
    unsafe { syscall(nr::SCHED_GETAFFINITY, words) }.unwrap_or(0)
}

/// Waits until a number is not `seen` any more, at most a millisecond.
fn wait_for_change(number: &AtomicU32, seen: u32) {
    const WAIT: usize = 0;
    let time = [0u64, 1_000_000];
    let words = [
        number.as_ptr() as usize,
        WAIT,
        seen as usize,
        time.as_ptr() as usize,
    ];
    // SAFETY: the number is static; the time lives through the call.
    let _ = unsafe { syscall(nr::FUTEX, words) };
}

fn wake_all(number: &AtomicU32) {
    const WAKE: usize = 1;
    // SAFETY: the number is static.
    let _ = unsafe {
        syscall(
            nr::FUTEX,
            [number.as_ptr() as usize, WAKE, i32::MAX as usize],
        )
    };
}
