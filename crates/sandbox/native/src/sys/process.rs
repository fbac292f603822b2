//! Processes, signals and credentials.

use super::{Errno, Fd, Result, nr, syscall};
use crate::arch::{clone_arguments, page_bytes};
use core::ffi::{CStr, c_char};

/// A process id.
pub type Pid = i32;

/// Signals by name.
pub mod signals {
    #![allow(missing_docs)]
    pub const INT: i32 = 2;
    pub const TRAP: i32 = 5;
    pub const KILL: i32 = 9;
    pub const TERM: i32 = 15;
    pub const CHLD: i32 = 17;
    pub const CONT: i32 = 18;
    pub const STOP: i32 = 19;
    /// The first of those that wake a standby (`forks/standby.rs`): real-time signals that C libraries leave alone.
    pub const WAKE: i32 = 40;
    /// Stops a thread while its process is copied (`forks/threads`). C libraries use this signal themselves (`setuid` in all threads), so
    /// their `pthread_sigmask` never blocks it: threads that block every signal stop too.
    pub const STOP_THREAD: i32 = 33;
}

/// Flags of `clone`.
pub mod clone_flags {
    #![allow(missing_docs)]
    pub const VM: usize = 0x100;
    pub const FILES: usize = 0x400;
    pub const VFORK: usize = 0x4000;
    pub const PARENT: usize = 0x8000;
    pub const THREAD: usize = 0x0001_0000;
    pub const NEWNS: usize = 0x0002_0000;
    pub const NEWCGROUP: usize = 0x0200_0000;
    pub const NEWUTS: usize = 0x0400_0000;
    pub const NEWIPC: usize = 0x0800_0000;
    pub const NEWUSER: usize = 0x1000_0000;
    pub const NEWPID: usize = 0x2000_0000;
    pub const NEWNET: usize = 0x4000_0000;
    /// What sessions may share by a public policy.
    pub const SHAREABLE: usize = NEWNET | NEWIPC | NEWUTS;
    /// Every flag that makes a namespace, the time namespace too.
    pub const ALL_NAMESPACES: usize =
        NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET | 0x80;
}

/// Which side of a fork this is.
pub enum Forked {
    /// The parent, with the child's id.
    Parent(Pid),
    /// The child.
    Child,
}

/// A fork by the bare system call: no handlers of libc run. For processes that stay native.
///
/// # Safety
/// The child must not use libc's state (locks may be held in it for ever).
pub unsafe fn clone_process(flags: usize) -> Result<Forked> {
    let words = clone_arguments(flags | signals::CHLD as usize, 0, 0, 0, 0);
    // SAFETY: no stack and no pointers: the child goes on on a copy of this one.
    match unsafe { syscall(nr::CLONE, words) }? {
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(pid as Pid)),
    }
}

/// Ends this process at once.
pub fn exit(code: i32) -> ! {
    loop {
        // SAFETY: no pointers; does not return.
        let _ = unsafe { syscall(nr::EXIT_GROUP, [code as usize]) };
    }
}

/// `unshare`
pub fn unshare(flags: usize) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall(nr::UNSHARE, [flags]) }.map(drop)
}

/// `setns`. The kernel returns 0; for a process that init leads into a fork, init chooses the number.
pub fn enter_namespace(namespace: Fd, kind: usize) -> Result<usize> {
    // SAFETY: no pointers.
    unsafe { syscall(nr::SETNS, [namespace as usize, kind]) }
}

/// `execve` with arrays that end in a null pointer. Returns only on failure.
pub fn execute(path: &CStr, arguments: &[*const c_char], environment: &[*const c_char]) -> Errno {
    // SAFETY: the caller's arrays end in null and point to C strings.
    let outcome = unsafe {
        syscall(
            nr::EXECVE,
            [
                path.as_ptr() as usize,
                arguments.as_ptr() as usize,
                environment.as_ptr() as usize,
            ],
        )
    };
    outcome.err().unwrap_or(Errno::INVAL)
}

/// `getpid`
pub fn own_pid() -> Pid {
    // SAFETY: no pointers.
    unsafe { syscall(nr::GETPID, []) }.unwrap_or(0) as Pid
}

/// `getppid`
pub fn parent_pid() -> Pid {
    // SAFETY: no pointers.
    unsafe { syscall(nr::GETPPID, []) }.unwrap_or(0) as Pid
}

/// Effective user and group.
pub fn effective_ids() -> (u32, u32) {
    // SAFETY: no pointers.
    unsafe {
        (
            syscall(nr::GETEUID, []).unwrap_or(0) as u32,
            syscall(nr::GETEGID, []).unwrap_or(0) as u32,
        )
    }
}

/// All three group ids.
pub fn set_group(id: u32) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall(nr::SETRESGID, [id as usize; 3]) }.map(drop)
}

/// All three user ids.
pub fn set_user(id: u32) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall(nr::SETRESUID, [id as usize; 3]) }.map(drop)
}

/// Leaves every supplementary group.
pub fn clear_groups() -> Result<()> {
    // SAFETY: an empty list.
    unsafe { syscall(nr::SETGROUPS, [0, 0]) }.map(drop)
}

/// `setsid`
pub fn new_session() {
    // SAFETY: no pointers.
    let _ = unsafe { syscall(nr::SETSID, []) };
}

/// `getpgid`: the process group of a process.
pub fn group_of(pid: Pid) -> Result<Pid> {
    // SAFETY: no pointers.
    unsafe { syscall(nr::GETPGID, [pid as usize]) }.map(|group| group as Pid)
}

/// Makes a terminal the controlling terminal of the calling process, which leads a session and has none.
pub fn take_terminal(terminal: Fd) -> Result<()> {
    const TIOCSCTTY: usize = 0x540E;
    // SAFETY: no pointers.
    unsafe { syscall(nr::IOCTL, [terminal as usize, TIOCSCTTY, 0]) }.map(drop)
}

/// `sethostname`
pub fn set_host_name(name: &[u8]) -> Result<()> {
    // SAFETY: the slice is ours and its length is told.
    unsafe { syscall(nr::SETHOSTNAME, [name.as_ptr() as usize, name.len()]) }.map(drop)
}

/// `process_vm_readv`: the bytes at an address of another process, as many as there are and fit.
pub fn read_memory(pid: Pid, address: u64, buffer: &mut [u8]) -> Result<&[u8]> {
    let near = [buffer.as_mut_ptr() as usize, buffer.len()];
    // A piece is read whole or not at all, so one that may not be there is a piece of its own.
    let first = (page_bytes() - address as usize % page_bytes()).min(buffer.len());
    let far = [
        [address as usize, first],
        [address as usize + first, buffer.len() - first],
    ];
    let words = [
        pid as usize,
        near.as_ptr() as usize,
        1,
        far.as_ptr() as usize,
        far.len(),
        0,
    ];
    // SAFETY: the buffer is ours and its length is told; the other process's memory is the kernel's to check.
    let length = unsafe { syscall(nr::PROCESS_VM_READV, words) }?;
    Ok(&buffer[..length.min(buffer.len())])
}

/// `kill`
pub fn kill(pid: Pid, signal: i32) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall(nr::KILL, [pid as usize, signal as usize]) }.map(drop)
}

/// What two threads can have in common, as `kcmp` numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Common {
    /// The table of descriptors.
    Descriptors = 2,
    /// The root directory and the working directory.
    Directories = 3,
}

/// Whether two threads have one and the same of these. `false` if the kernel does not tell.
pub fn have_in_common(first: Pid, second: Pid, what: Common) -> bool {
    let words = [first as usize, second as usize, what as usize, 0, 0];
    // SAFETY: no pointers.
    let order = unsafe { syscall(nr::KCMP, words) };
    order == Ok(0)
}

/// A copy of a descriptor of another thread (Linux 6.9).
pub fn descriptor_of(thread: Pid, number: Fd) -> Result<Fd> {
    const THREAD: usize = 0o200;
    // SAFETY: numbers only.
    let handle = unsafe { syscall(nr::PIDFD_OPEN, [thread as usize, THREAD]) }?;
    // SAFETY: numbers only.
    let copy = unsafe { syscall(nr::PIDFD_GETFD, [handle, number as usize, 0]) };
    super::close(handle as Fd);
    copy.map(|fd| fd as Fd)
}

/// `prctl`
pub fn prctl(option: usize, value: usize) -> Result<usize> {
    // SAFETY: only options that take a number are used through this.
    unsafe { syscall(nr::PRCTL, [option, value, 0, 0, 0]) }
}

/// A child that ended, with the raw wait status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The process that ended.
    pub pid: Pid,
    /// As `wait4` gives it.
    pub status: i32,
    /// Microseconds of CPU, its own and its children's.
    pub cpu: u64,
    /// The most bytes it held.
    pub peak: u64,
}

/// Reaps one child, or any with `-1`; without `block`, `None` when none has ended yet.
pub fn reap(pid: Pid, block: bool) -> Result<Option<Ended>> {
    const NOHANG: usize = 1;
    const ALL_CHILDREN: usize = 0x4000_0000;
    let mut status = 0i32;
    // `struct rusage`: user and system time, each in seconds and microseconds, then the peak in KiB, then more.
    let mut usage = [0u64; 18];
    loop {
        let flags = ALL_CHILDREN | if block { 0 } else { NOHANG };
        // SAFETY: the status and the usage live through the call.
        match unsafe {
            syscall(
                nr::WAIT4,
                [
                    pid as usize,
                    &raw mut status as usize,
                    flags,
                    usage.as_mut_ptr() as usize,
                ],
            )
        } {
            Ok(0) => return Ok(None),
            Ok(pid) => {
                let cpu = (usage[0] + usage[2]) * 1_000_000 + usage[1] + usage[3];
                return Ok(Some(Ended {
                    pid: pid as Pid,
                    status,
                    cpu,
                    peak: usage[4] * 1024,
                }));
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Blocks exactly these signals (a bit mask, signal 1 is bit 0) and returns the mask from before.
pub fn set_signal_mask(mask: u64) -> u64 {
    const SETMASK: usize = 2;
    let mut old = 0u64;
    // SAFETY: both masks are eight bytes and live through the call.
    let _ = unsafe {
        syscall(
            nr::RT_SIGPROCMASK,
            [SETMASK, &raw const mask as usize, &raw mut old as usize, 8],
        )
    };
    old
}

/// A descriptor that becomes readable when one of these signals is pending.
pub fn signal_descriptor(mask: u64) -> Result<Fd> {
    const NONBLOCK_CLOEXEC: usize = 0o2_004_000;
    // SAFETY: the mask is eight bytes and lives through the call.
    unsafe {
        syscall(
            nr::SIGNALFD4,
            [usize::MAX, &raw const mask as usize, 8, NONBLOCK_CLOEXEC],
        )
    }
    .map(|fd| fd as Fd)
}

/// What this process does with a signal: the kernel's `struct sigaction`.
pub struct SignalAction([u64; 4]);

impl SignalAction {
    const MASK_BYTES: usize = 8;

    /// What it does with it now.
    pub fn of(signal: i32) -> SignalAction {
        let mut action = [0; 4];
        let words = [
            signal as usize,
            0,
            action.as_mut_ptr() as usize,
            SignalAction::MASK_BYTES,
        ];
        // SAFETY: memory for the structure.
        let _ = unsafe { syscall(nr::RT_SIGACTION, words) };
        SignalAction(action)
    }

    /// Does this with it again.
    pub fn restore(&self, signal: i32) {
        let words = [
            signal as usize,
            self.0.as_ptr() as usize,
            0,
            SignalAction::MASK_BYTES,
        ];
        // SAFETY: the structure lives through the call; its handler is the one from before.
        let _ = unsafe { syscall(nr::RT_SIGACTION, words) };
    }
}

/// Puts every signal back to its default, as after a fresh start.
pub fn default_signals() {
    let action = [0u64; 4];
    for signal in (1..=64).filter(|signal| *signal != signals::KILL && *signal != signals::STOP) {
        // SAFETY: a zeroed `struct sigaction` is the default action; the size of its mask is eight bytes.
        let _ = unsafe {
            syscall(
                nr::RT_SIGACTION,
                [signal as usize, action.as_ptr() as usize, 0, 8],
            )
        };
    }
}

/// Seconds and nanoseconds that never go back.
pub fn monotonic_milliseconds() -> u64 {
    const MONOTONIC: usize = 1;
    let mut time = [0u64; 2];
    // SAFETY: `struct timespec` is two words.
    let _ = unsafe { syscall(nr::CLOCK_GETTIME, [MONOTONIC, time.as_mut_ptr() as usize]) };
    time[0] * 1000 + time[1] / 1_000_000
}

/// How long a process has run on processors, in nanoseconds, all its threads together. Who runs at this moment is up to date as of the last tick.
pub fn processor_time(pid: Pid) -> Result<u64> {
    /// The clock of the scheduler, for a whole process.
    const SCHEDULED: isize = 2;
    let clock = (!(pid as isize) << 3 | SCHEDULED) as usize;
    let mut time = [0u64; 2];
    // SAFETY: `struct timespec` is two words.
    unsafe { syscall(nr::CLOCK_GETTIME, [clock, time.as_mut_ptr() as usize]) }?;
    Ok(time[0] * 1_000_000_000 + time[1])
}

/// Ticks since the machine was started, as `/proc` counts them: a hundred in a second.
pub fn boot_ticks() -> u64 {
    const BOOTTIME: usize = 7;
    const NANOSECONDS: u64 = 10_000_000;
    let mut time = [0u64; 2];
    // SAFETY: `struct timespec` is two words.
    let _ = unsafe { syscall(nr::CLOCK_GETTIME, [BOOTTIME, time.as_mut_ptr() as usize]) };
    time[0] * 100 + time[1] / NANOSECONDS
}

/// One descriptor to wait for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Poll {
    /// Which; a negative number is passed over.
    pub fd: Fd,
    /// What for: 1 is "readable".
    pub events: i16,
    /// What came.
    pub seen: i16,
}

impl Poll {
    /// Waits for `fd` to be readable.
    pub const fn readable(fd: Fd) -> Poll {
        Poll {
            fd,
            events: 1,
            seen: 0,
        }
    }
}

/// `ppoll`; a negative time-out waits for ever. An interruption counts as nothing seen.
pub fn poll(descriptors: &mut [Poll], milliseconds: i32) -> usize {
    // The kernel writes there what is left of the time, and goes on with that when the process was stopped meanwhile.
    let mut time = u64::try_from(milliseconds)
        .ok()
        .map(|milliseconds| [milliseconds / 1000, milliseconds % 1000 * 1_000_000]);
    let words = [
        descriptors.as_mut_ptr() as usize,
        descriptors.len(),
        time.as_mut().map_or(0, |time| time.as_mut_ptr() as usize),
        0,
        0,
    ];
    // SAFETY: the slice is ours and its length is told; the time lives through the call.
    unsafe { syscall(nr::PPOLL, words) }.unwrap_or(0)
}

/// Waits until a child has ended, or for this long. SIGCHLD must be blocked; the signal is taken, so the caller has to reap.
pub fn wait_for_child(microseconds: u64) {
    let wanted = 1u64 << (signals::CHLD - 1);
    let time = [microseconds / 1_000_000, microseconds % 1_000_000 * 1_000];
    // SAFETY: the mask and the time live through the call; nothing is told of the signal.
    let _ = unsafe {
        syscall(
            nr::RT_SIGTIMEDWAIT,
            [&raw const wanted as usize, 0, time.as_ptr() as usize, 8],
        )
    };
}
