//! `rlimits`: the limits that need no cgroup.

use crate::config::{Spawn, walls};
use crate::sys::{Result, nr, syscall};

const STACK: usize = 3;
const DATA: usize = 2;
const FILE_SIZE: usize = 1;
const CORE: usize = 4;
const PROCESSES: usize = 6;
const OPEN_FILES: usize = 7;
const MESSAGE_QUEUES: usize = 12;

/// Applies the limits of a session to the calling process and so to all that it starts.
pub fn apply(spawn: &Spawn) -> Result<()> {
    // 1, not 0: a core dump that goes to a program of the host's, as on most distributions, ignores a limit of 0. That
    // program would run as root on memory of the session's making, and take its time over every crash.
    set(CORE, 1)?;
    set(MESSAGE_QUEUES, 0)?;
    set(OPEN_FILES, spawn.open_files)?;
    // Threads take their stack size from this limit, and stacks count against DATA: eight megabytes each would make a
    // hundred threads fail.
    set_soft(STACK, 8 << 20)?;
    if spawn.walls & walls::PROCESS_COUNT != 0 {
        set(PROCESSES, spawn.processes)?;
    }
    if spawn.walls & walls::DISK != 0 {
        set(FILE_SIZE, spawn.file_bytes)?;
    }
    if spawn.walls & walls::MEMORY != 0 {
        // DATA, not AS: it gives a clean MemoryError and still lets a large file be mapped.
        set(DATA, spawn.memory)?;
    }
    Ok(())
}

/// Both limits. Where the host's own is lower, that one stays: nobody but root may raise it.
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
