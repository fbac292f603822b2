//! Landlock: file access by path, checked by the kernel whatever the mounts look like.

use crate::sys::{Errno, Fd, Result, close, nr, open, open_flags, syscall};
use crate::wire::config::{Item, Items};
use core::sync::atomic::{AtomicU32, Ordering};

const EXECUTE: u64 = 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIRECTORY: u64 = 1 << 3;
const WRITE_FILE: u64 = 1 << 1;
const TRUNCATE: u64 = 1 << 14;
const READ: u64 = EXECUTE | READ_FILE | READ_DIRECTORY;
const MAKE_BLOCK_DEVICES: u64 = 1 << 11;
const MAKE_DEVICES: u64 = 1 << 6 | MAKE_BLOCK_DEVICES;
const REFER: u64 = 1 << 13;
/// What a rule on a plain file or device may grant.
const ON_A_FILE: u64 = EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | 1 << 15;

const BIND_AND_CONNECT: u64 = 0b11;
const ABSTRACT_SOCKETS_AND_SIGNALS: u64 = 0b11;

#[repr(C)]
struct Ruleset {
    files: u64,
    network: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathRule {
    allowed: u64,
    parent: Fd,
}

/// The version of Landlock that this kernel offers.
pub fn version() -> Result<u32> {
    const VERSION: usize = 1;
    // SAFETY: with this flag the kernel reads no structure.
    unsafe { syscall(nr::LANDLOCK_CREATE_RULESET, [0, 0, VERSION]) }.map(|version| version as u32)
}

/// Whether code may bind TCP sockets to ports and connect them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tcp {
    /// The network is the session's own, with nothing but a loopback; or there is no wall around it.
    Free,
    /// The network is the host's.
    Forbidden,
}

/// Confines this process, and all it starts, to what `items` list as readable and writable.
pub fn confine(items: Items<'_>, tcp: Tcp) -> Result<()> {
    let version = version()?;
    let all = all_accesses(version);
    let ruleset = Ruleset {
        files: all,
        network: match tcp {
            Tcp::Forbidden if version >= 4 => BIND_AND_CONNECT,
            Tcp::Forbidden | Tcp::Free => 0,
        },
        scoped: if version >= 6 {
            ABSTRACT_SOCKETS_AND_SIGNALS
        } else {
            0
        },
    };
    // An older kernel takes the shorter structure that it knows.
    let size = match version {
        0..4 => 8,
        4..6 => 16,
        _ => 24,
    };
    // SAFETY: the structure lives through the call and its size is told.
    let rules = unsafe {
        syscall(
            nr::LANDLOCK_CREATE_RULESET,
            [&raw const ruleset as usize, size, 0],
        )
    }? as Fd;
    for (path, _) in items.of(Item::Readable) {
        allow(rules, path, READ & all)?;
    }
    for (path, _) in items.of(Item::Writable) {
        allow(rules, path, all)?;
    }
    for (path, _) in items.of(Item::Mounted) {
        allow(rules, path, all & !MAKE_DEVICES)?;
    }
    enforce(rules)?;
    LAYERS.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// How many sets of rules this process is under.
static LAYERS: AtomicU32 = AtomicU32::new(0);
/// How many the kernel allows.
const MAX_LAYERS: u32 = 16;

/// Parts this process, and all it starts, from the forks that were made of its session so far.
///
/// The kernel gives a user every right over the namespaces that he made, so code of a session could look into its forks, which live
/// below it. But under Landlock no process may look into one that is not under the same rules; and with one set more, which
/// forbids nothing new, these are other rules.
pub fn part_from_forks() -> Result<()> {
    part_thread_from_forks()?;
    LAYERS.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Parts the calling thread, and all it starts, from those forks: the kernel keeps the rules of each thread apart. Every thread that was there
/// when a fork was made needs it; the threads that it starts later inherit its rules.
pub fn part_thread_from_forks() -> Result<()> {
    // Making block devices, which no process here can anyway. Moving a file to another directory is forbidden by any set of rules
    // that does not allow it by name.
    let moving = if version()? >= 2 { REFER } else { 0 };
    let rules = ruleset(MAKE_BLOCK_DEVICES | moving)?;
    if moving != 0
        && let Err(error) = allow(rules, c"/", moving)
    {
        close(rules);
        return Err(error);
    }
    enforce(rules)
}

/// Whether it can be parted from one more.
pub fn can_separate() -> bool {
    LAYERS.load(Ordering::Relaxed) < MAX_LAYERS
}

/// A set of rules that forbids these accesses to files, as long as nothing is allowed.
fn ruleset(accesses: u64) -> Result<Fd> {
    // SAFETY: the structure lives through the call; eight bytes of it are enough for files.
    let rules = unsafe {
        syscall(
            nr::LANDLOCK_CREATE_RULESET,
            [&raw const accesses as usize, 8, 0],
        )
    }?;
    Ok(rules as Fd)
}

fn enforce(rules: Fd) -> Result<()> {
    // SAFETY: a descriptor and no flags.
    let outcome = unsafe { syscall(nr::LANDLOCK_RESTRICT_SELF, [rules as usize, 0]) };
    close(rules);
    outcome.map(drop)
}

/// Forbids this process, and all it starts, to change anything in the file system.
pub fn forbid_changes() -> Result<()> {
    enforce(ruleset(all_accesses(version()?) & !READ)?)
}

fn allow(rules: Fd, path: &core::ffi::CStr, accesses: u64) -> Result<()> {
    const PATH_BENEATH: usize = 1;
    // What is not there needs no rule.
    let Ok(parent) = open(path, open_flags::PATH, 0) else {
        return Ok(());
    };
    let add = |allowed| {
        let rule = PathRule { allowed, parent };
        // SAFETY: the rule lives through the call.
        unsafe {
            syscall(
                nr::LANDLOCK_ADD_RULE,
                [rules as usize, PATH_BENEATH, &raw const rule as usize, 0],
            )
        }
    };
    // EINVAL: the path is a file, and directory accesses make no sense on it.
    let outcome = add(accesses).or_else(|error| {
        if error == Errno::INVAL {
            add(accesses & ON_A_FILE)
        } else {
            Err(error)
        }
    });
    close(parent);
    outcome.map(drop)
}

fn all_accesses(version: u32) -> u64 {
    let known = match version {
        0 | 1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    };
    (1 << known) - 1
}
