//! Keeps two processes on one processor while each of them waits for the other in turn.
//!
//! To wake a processor that sleeps takes longer than a system call; in a virtual machine, many times longer.

use crate::sys::{Pid, Result, nr, syscall};

/// One bit for each processor. The kernel can be built for 8192 of them.
type Processors = [u64; 128];

/// The process id that means the calling process.
const SELF: Pid = 0;

/// Holds this process and another one on the processor that this one runs on. Dropping it lets both run where they could before.
pub struct SharedCpu {
    other: Pid,
    own_before: Processors,
    others_before: Processors,
}

impl SharedCpu {
    /// Moves the other process to the processor of this one. Where that is not allowed, entering a fork only takes longer.
    pub fn with(other: Pid) -> Option<SharedCpu> {
        let together = SharedCpu {
            other,
            own_before: allowed(SELF).ok()?,
            others_before: allowed(other).ok()?,
        };
        let processor = current().ok()?;
        let mut one: Processors = [0; 128];
        *one.get_mut(processor / 64)? = 1 << (processor % 64);
        allow(SELF, &one).ok()?;
        // Dropping the value puts back what was changed from here on.
        let _ = allow(other, &one);
        Some(together)
    }
}

impl Drop for SharedCpu {
    fn drop(&mut self) {
        let _ = allow(self.other, &self.others_before);
        let _ = allow(SELF, &self.own_before);
    }
}

fn current() -> Result<usize> {
    let mut processor = 0u32;
    // SAFETY: memory for a number; the node is not asked for.
    unsafe { syscall(nr::GETCPU, [&raw mut processor as usize, 0, 0]) }?;
    Ok(processor as usize)
}

fn allowed(pid: Pid) -> Result<Processors> {
    let mut processors: Processors = [0; 128];
    let words = [
        pid as usize,
        size_of::<Processors>(),
        processors.as_mut_ptr() as usize,
    ];
    // SAFETY: memory of the size that is told.
    unsafe { syscall(nr::SCHED_GETAFFINITY, words) }?;
    Ok(processors)
}

fn allow(pid: Pid, processors: &Processors) -> Result<()> {
    let words = [
        pid as usize,
        size_of::<Processors>(),
        processors.as_ptr() as usize,
    ];
    // SAFETY: the mask lives through the call and its size is told.
    unsafe { syscall(nr::SCHED_SETAFFINITY, words) }.map(drop)
}
