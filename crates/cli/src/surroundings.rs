//! The limits and settings that this process was started with: put right where that is allowed, refused where they are
//! too low.
//!
//! Everything below would fail later as well, but in the middle of something, on another process or without a word about
//! the limit: a thread that cannot be started is a panic in tokio, a file that is too large a signal.

use crate::failure::CannotStart;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit, umask};
use std::fmt::Write as _;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// A resource limit below which no command can work.
struct Needed {
    resource: Resource,
    /// The least that is needed, in the kernel's unit.
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
const STACK: Needed = Needed {
    resource: Resource::Stack,
    least: MIB,
    what: "KiB of stack",
    option: 's',
    unit: KIB,
};

const NEEDED: [Needed; 5] = [
    // Each session takes about a dozen descriptors of the host's.
    Needed {
        resource: Resource::Nofile,
        least: 256,
        what: "open files",
        option: 'n',
        unit: 1,
    },
    // The host's threads, and the processes of a session with its checkpoints.
    Needed {
        resource: Resource::Nproc,
        least: 64,
        what: "processes and threads of this user",
        option: 'u',
        unit: 1,
    },
    // The longest journal.
    Needed {
        resource: Resource::Fsize,
        least: 64 * MIB,
        what: "KiB in one file",
        option: 'f',
        unit: KIB,
    },
    Needed {
        resource: Resource::As,
        least: 512 * MIB,
        what: "KiB of address space",
        option: 'v',
        unit: KIB,
    },
    Needed {
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
    let problems: Vec<Problem> = NEEDED.iter().filter_map(raise).collect();
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

/// A limit that is too low.
struct Problem {
    needed: &'static Needed,
    maximum: u64,
}

/// Raises the soft limit to the hard one.
fn raise(needed: &'static Needed) -> Option<Problem> {
    // The kernel does not count root's.
    if needed.resource == Resource::Nproc && geteuid().is_root() {
        return None;
    }
    let limit = getrlimit(needed.resource);
    // Only what is too low is changed, and descriptors: the usual limit is meant for programs that wait with `select`.
    let is_enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= needed.least);
    if !is_enough(limit.current) || needed.resource == Resource::Nofile {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // Where it is refused, the limit is as low as before, which is told below.
        let _ = setrlimit(needed.resource, raised);
    }
    let now = getrlimit(needed.resource).current;
    (!is_enough(now)).then(|| Problem {
        needed,
        maximum: now.unwrap_or(0),
    })
}

fn refusal(problems: &[Problem]) -> anyhow::Error {
    let mut message = String::from("the limits of this process are too low: ");
    let mut commands = String::new();
    for (at, Problem { needed, maximum }) in problems.iter().enumerate() {
        let separator = if at == 0 { "" } else { "; " };
        let (have, least) = (maximum / needed.unit, needed.least / needed.unit);
        let _ = write!(
            message,
            "{separator}at most {have} {}, and {least} are needed",
            needed.what
        );
        let _ = write!(commands, "{separator}ulimit -{} {least}", needed.option);
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
    let gate = Mutex::new(());
    let closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, || drop(gate.lock()))?;
        }
        drop(closed);
        Ok(())
    })
}
