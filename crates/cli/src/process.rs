//! The process of a command: its resource limits, which are raised as far as allowed, and its asynchronous runtime.
//!
//! A limit that is too low is refused at the start. It would also fail later, but in the middle of some work and without naming the limit:
//! a thread that cannot be started is a panic in tokio, a file that is too large is a signal.

use crate::failure::CannotStart;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit, umask};
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};
use tokio::runtime::{Builder, Runtime};

/// A resource limit below which no command can work.
struct RequiredLimit {
    resource: Resource,
    /// The least that is required, in the kernel's unit.
    least: u64,
    /// What is limited, for people.
    what: &'static str,
    /// The option of the shell's `ulimit`.
    option: char,
    /// How many of the kernel's units are one of the shell's.
    unit: u64,
}

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;

/// What code of the main thread needs before anything else.
const STACK: RequiredLimit = RequiredLimit {
    resource: Resource::Stack,
    least: MIB,
    what: "KiB of stack",
    option: 's',
    unit: KIB,
};

const REQUIRED_LIMITS: [RequiredLimit; 5] = [
    // Each session takes about a dozen descriptors of the host's.
    RequiredLimit {
        resource: Resource::Nofile,
        least: 256,
        what: "open files",
        option: 'n',
        unit: 1,
    },
    // The host's threads, and the processes of a session with its checkpoints.
    RequiredLimit {
        resource: Resource::Nproc,
        least: 64,
        what: "processes and threads of this user",
        option: 'u',
        unit: 1,
    },
    // The longest journal.
    RequiredLimit {
        resource: Resource::Fsize,
        least: 64 * MIB,
        what: "KiB in one file",
        option: 'f',
        unit: KIB,
    },
    RequiredLimit {
        resource: Resource::As,
        least: 512 * MIB,
        what: "KiB of address space",
        option: 'v',
        unit: KIB,
    },
    RequiredLimit {
        resource: Resource::Data,
        least: 256 * MIB,
        what: "KiB of data",
        option: 'd',
        unit: KIB,
    },
];

/// Raises the limit of the stack as far as allowed; an error where it is too low. To be called before anything that needs
/// a stack.
pub(crate) fn prepare_stack() -> anyhow::Result<()> {
    match raise(&STACK) {
        Some(problem) => Err(refusal(&[problem])),
        None => Ok(()),
    }
}

/// Raises limits as far as allowed, and puts other settings right. An error says which limits are too low.
pub(crate) fn prepare() -> anyhow::Result<()> {
    // A write to a file that is too large is an error like any other.
    cellblock_sandbox::ignore_file_size_signal();
    // Files and directories that the host makes must be open to the host.
    umask(umask(Mode::RWXU).difference(Mode::RWXU));
    let problems: Vec<LowLimit> = REQUIRED_LIMITS.iter().filter_map(raise).collect();
    if !problems.is_empty() {
        return Err(refusal(&problems));
    }
    check_threads().map_err(|error| {
        CannotStart::hinted(
            format!("no more threads can be started: {error}"),
            "this user has too many processes, or the memory is used up: see `ulimit -u`, `ulimit -v` and `pids.max` of the \
             cgroup",
        )
    })
}

/// Bytes of memory that the machine could still give to processes.
pub(crate) fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * KIB)
}

/// A limit that is too low.
struct LowLimit {
    required: &'static RequiredLimit,
    maximum: u64,
}

/// Raises the soft limit to the hard one.
fn raise(required: &'static RequiredLimit) -> Option<LowLimit> {
    // The kernel does not count root's.
    if required.resource == Resource::Nproc && geteuid().is_root() {
        return None;
    }
    let limit = getrlimit(required.resource);
    // Only what is too low is changed, and descriptors: the usual limit is meant for programs that wait with `select`.
    let is_enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= required.least);
    if !is_enough(limit.current) || required.resource == Resource::Nofile {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // Where it is refused, the limit is as low as before, which is told below.
        let _ = setrlimit(required.resource, raised);
    }
    let now = getrlimit(required.resource).current;
    (!is_enough(now)).then(|| LowLimit {
        required,
        maximum: now.unwrap_or(0),
    })
}

fn refusal(problems: &[LowLimit]) -> anyhow::Error {
    let mut message = String::from("the limits of this process are too low: ");
    let mut commands = String::new();
    for (at, LowLimit { required, maximum }) in problems.iter().enumerate() {
        let separator = if at == 0 { "" } else { "; " };
        let (have, least) = (maximum / required.unit, required.least / required.unit);
        let _ = write!(
            message,
            "{separator}at most {have} {}, and {least} are needed",
            required.what
        );
        let _ = write!(commands, "{separator}ulimit -{} {least}", required.option);
    }
    CannotStart::hinted(
        message,
        format!(
            "raise them before the start: `{commands}` in a shell that may, or the settings of the service or container"
        ),
    )
}

/// Starts the threads that a command may need, and ends them.
fn check_threads() -> io::Result<()> {
    const THREADS: usize = 8;
    const STACK_BYTES: usize = 2 << 20;
    let barrier = Mutex::new(());
    let closed = barrier.lock().unwrap_or_else(PoisonError::into_inner);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, || drop(barrier.lock()))?;
        }
        drop(closed);
        Ok(())
    })
}

/// A runtime whose tasks all run on the calling thread: the quickest to start.
pub(crate) fn runtime_on_this_thread() -> io::Result<Runtime> {
    started(&mut Builder::new_current_thread())
}

/// A runtime with threads of its own.
pub(crate) fn runtime_on_threads(workers: usize) -> io::Result<Runtime> {
    started(Builder::new_multi_thread().worker_threads(workers))
}

/// Keeps the threads for blocking work that were ever started.
///
/// Tokio panics, or waits for ever, where blocking work is to be done, no thread for it is left, and none can be started.
fn started(builder: &mut Builder) -> io::Result<Runtime> {
    const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    let runtime = builder.enable_all().thread_keep_alive(FOR_EVER).build()?;
    drop(runtime.spawn_blocking(|| ()));
    Ok(runtime)
}
