//! `rlimits`: the limits that need no cgroup.

use crate::init::sweep::{self, Reach};
use crate::sys::text::{Text, leading_number};
use crate::sys::{
    Errno, Fd, Pid, Result, close, each_line_at, effective_ids, nr, own_pid, syscall,
};
use crate::walls::{data_limit, mounts};
use crate::wire::config::{Spawn, walls};

const STACK: usize = 3;
const DATA: usize = 2;
const FILE_SIZE: usize = 1;
const CORE: usize = 4;
const PROCESSES: usize = 6;
const OPEN_FILES: usize = 7;
const LOCKED_MEMORY: usize = 8;
const PENDING_SIGNALS: usize = 11;
const MESSAGE_QUEUES: usize = 12;
const NICENESS: usize = 13;
const REAL_TIME_PRIORITY: usize = 14;

/// What one session may have of what the kernel counts for each user. It counts within a user namespace, but for the users of the namespaces
/// around it as well, and the outermost is the host's own.
const MAX_LOCKED_BYTES: u64 = 64 << 10;
const MAX_PENDING_SIGNALS: u64 = 256;
/// How many more processes and threads the user of a session may have later than when it began, where the kernel counts them with the session's
/// and init does not follow them.
const MAX_OTHERS_COMING: u64 = 256;
/// How many more the user may have until init counts again, where init follows them and holds the session's own limit.
pub const MAX_OTHERS_BETWEEN: u64 = 32;

/// What the interpreter itself may use beyond the memory limit: a cell that ran into the limit leaves it no memory to go on.
pub const RESERVE: u64 = 48 << 20;

/// Applies the limits of a session to the calling process and so to all that it starts.
pub fn apply(spawn: &Spawn) -> Result<()> {
    // 1, not 0: a core dump that goes to a program of the host's, as on most distributions, ignores a limit of 0. That
    // program would run as root on memory of the session's making, and take its time over every crash.
    set(CORE, 1)?;
    set(MESSAGE_QUEUES, 0)?;
    set(LOCKED_MEMORY, MAX_LOCKED_BYTES)?;
    set(NICENESS, 0)?;
    set(REAL_TIME_PRIORITY, 0)?;
    // Timers too: each has a signal set aside.
    let pending = if spawn.walls & walls::NAMESPACES != 0 {
        0
    } else {
        signals_of_own_user()
    };
    set(PENDING_SIGNALS, pending + MAX_PENDING_SIGNALS)?;
    // Threads take their stack size from this limit, and stacks count against DATA. Deep recursion needs the usual eight megabytes;
    // with more, as some hosts have, a hundred threads would not fit.
    set_soft(STACK, 8 << 20)?;
    if spawn.walls & walls::PROCESS_COUNT != 0 {
        // The kernel counts for each user, and in a user namespace only those inside. Without one, everything that the user
        // runs is counted too, and comes and goes.
        let has_own_user = spawn.walls & walls::NAMESPACES != 0;
        if spawn.can_fork() {
            // Soft, so that init can raise it for forks; the filter keeps the session from changing it.
            set_soft(PROCESSES, spawn.processes)?;
        } else if has_own_user {
            set(PROCESSES, spawn.processes)?;
        } else {
            let most = spawn.processes + tasks_of_own_user()?;
            if spawn.follows_other_processes() {
                set_soft(PROCESSES, most + MAX_OTHERS_BETWEEN)?;
            } else {
                set(PROCESSES, most + MAX_OTHERS_COMING)?;
            }
        }
    }
    if spawn.walls & walls::DISK != 0 {
        set(FILE_SIZE, spawn.file_bytes)?;
    }
    if spawn.walls & walls::MEMORY != 0 {
        // DATA, not AS: it gives a clean MemoryError and still lets a large file be mapped.
        // Soft, so that the process can make room for what is reserved and not used.
        let hard = hard(DATA)?;
        let soft = spawn.memory.min(hard.saturating_sub(RESERVE));
        prlimit(DATA, [soft, hard])?;
        data_limit::follow_use(soft);
    }
    Ok(())
}

/// Sets the limit of processes of a process of the session, as its code asked for. At most `most` can be asked for.
pub fn set_processes(pid: Pid, wanted: [u64; 2], most: u64) -> Result<()> {
    let [soft, wanted_hard] = wanted;
    if soft > wanted_hard {
        return Err(Errno::INVAL);
    }
    let mut present = [0u64; 2];
    // SAFETY: `struct rlimit64` is two words.
    unsafe {
        syscall(
            nr::PRLIMIT64,
            [pid as usize, PROCESSES, 0, present.as_mut_ptr() as usize],
        )
    }?;
    if soft > most.max(present[0]) || wanted_hard > present[1] {
        return Err(Errno::PERM);
    }
    // SAFETY: `struct rlimit64` is two words.
    unsafe {
        syscall(
            nr::PRLIMIT64,
            [pid as usize, PROCESSES, wanted.as_ptr() as usize, 0],
        )
    }
    .map(drop)
}

/// Changes the soft limit of a process of the session, unless its code has lowered it. `former` are the last two that init has set: a process
/// that was started meanwhile has that of its parent.
pub fn change_processes(pid: Pid, former: [u64; 2], most: u64) -> Result<()> {
    let soft = soft_processes(pid)?;
    if former.contains(&soft) || soft > most {
        allow_processes(pid, most)
    } else {
        Ok(())
    }
}

/// The soft limit of processes of a process.
pub fn soft_processes(pid: Pid) -> Result<u64> {
    let mut pair = [0u64; 2];
    // SAFETY: `struct rlimit64` is two words.
    unsafe {
        syscall(
            nr::PRLIMIT64,
            [pid as usize, PROCESSES, 0, pair.as_mut_ptr() as usize],
        )
    }?;
    Ok(pair[0])
}

/// Lets a process of the session have this many processes and threads beside it.
pub fn allow_processes(pid: Pid, most: u64) -> Result<()> {
    let mut pair = [0u64; 2];
    // SAFETY: `struct rlimit64` is two words.
    unsafe {
        syscall(
            nr::PRLIMIT64,
            [pid as usize, PROCESSES, 0, pair.as_mut_ptr() as usize],
        )
    }?;
    pair[0] = most.min(pair[1]);
    // SAFETY: `struct rlimit64` is two words.
    unsafe {
        syscall(
            nr::PRLIMIT64,
            [pid as usize, PROCESSES, pair.as_ptr() as usize, 0],
        )
    }
    .map(drop)
}

/// Limits the open files. Last of all: the limit is also that of descriptors on their way through sockets, counted for the
/// whole user, and another session of his may have filled it; then ours would not come through.
pub fn limit_open_files(most: u64) -> Result<()> {
    set(OPEN_FILES, most)
}

/// As many open files as the host itself may have.
pub fn allow_open_files() {
    if let Ok(most) = hard(OPEN_FILES) {
        let _ = set_soft(OPEN_FILES, most);
    }
}

/// Processes and threads of the user that this process runs as.
fn tasks_of_own_user() -> Result<u64> {
    let processes = mounts::open_proc()?;
    let tasks = count_tasks(processes, |_| true);
    close(processes);
    Ok(tasks)
}

/// For init: processes and threads of its user that are not the session's own.
pub fn tasks_of_others(processes: Fd) -> u64 {
    count_tasks(processes, |pid| {
        pid != own_pid() && !sweep::is_descendant(processes, pid)
    })
}

/// For init: processes and threads of the session, init and standbys with them.
pub fn tasks_of_session(reach: Reach, processes: Fd) -> u64 {
    let (user, _) = effective_ids();
    let mut tasks = 1;
    sweep::each_process(reach, processes, |pid| {
        tasks += tasks_of(processes, pid, user).unwrap_or(0);
    });
    tasks
}

/// Processes and threads of this user, of those processes that `counts` is true for.
fn count_tasks(processes: Fd, counts: impl Fn(Pid) -> bool) -> u64 {
    let (user, _) = effective_ids();
    let mut tasks = 0;
    sweep::each_entry(processes, |pid| {
        // Asked last: most processes of a machine are another user's.
        let found = tasks_of(processes, pid, user).unwrap_or(0);
        if found > 0 && counts(pid) {
            tasks += found;
        }
    });
    tasks
}

/// Signals that wait for a process of the user that this process runs as, and timers of these processes.
fn signals_of_own_user() -> u64 {
    let mut found = 0;
    if let Ok(processes) = mounts::open_proc() {
        let _ = each_line_at(processes, c"self/status", |line| {
            if let Some(counts) = line.strip_prefix(b"SigQ:") {
                found = leading_number(counts.trim_ascii_start()).unwrap_or(0);
            }
        });
        close(processes);
    }
    found
}

fn tasks_of(processes: Fd, pid: Pid, user: u32) -> Option<u64> {
    let path = Text::<32>::new(format_args!("{pid}/status")).ok()?;
    let (mut owner, mut threads) = (None, None);
    let number =
        |line: &[u8], name: &[u8]| leading_number(line.strip_prefix(name)?.trim_ascii_start());
    each_line_at(processes, path.as_c_str(), |line| {
        owner = owner.or_else(|| number(line, b"Uid:"));
        threads = threads.or_else(|| number(line, b"Threads:"));
    })
    .ok()?;
    if owner? == u64::from(user) {
        threads
    } else {
        Some(0)
    }
}

/// Both limits. Where the host's own limit is lower, it stays: only root may raise it.
fn set(resource: usize, value: u64) -> Result<()> {
    let value = value.min(hard(resource)?);
    prlimit(resource, [value, value])
}

fn set_soft(resource: usize, value: u64) -> Result<()> {
    let hard = hard(resource)?;
    prlimit(resource, [value.min(hard), hard])
}

fn hard(resource: usize) -> Result<u64> {
    let mut pair = [0u64; 2];
    // SAFETY: `struct rlimit64` is two words; process 0 is the caller.
    unsafe { syscall(nr::PRLIMIT64, [0, resource, 0, pair.as_mut_ptr() as usize]) }?;
    Ok(pair[1])
}

fn prlimit(resource: usize, pair: [u64; 2]) -> Result<()> {
    // SAFETY: `struct rlimit64` is two words; process 0 is the caller.
    unsafe { syscall(nr::PRLIMIT64, [0, resource, pair.as_ptr() as usize, 0]) }.map(drop)
}
