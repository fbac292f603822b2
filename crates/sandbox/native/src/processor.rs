//! Two processes on one processor, for as long as one of them always waits for the other.
//!
//! To wake a processor that sleeps takes longer than a system call, and in a virtual machine many times as long.

use crate::sys::{Pid, Result, nr, syscall};

/// One bit for each processor; as many as the kernel can be built for, and more.
type Processors = [u64; 128];

/// The process itself, for the kernel.
const SELF: Pid = 0;

/// This process and another one on the processor that this one is on. When it is dropped, each may run where it could before.
pub struct OneProcessor {
    other: Pid,
    own_before: Processors,
    others_before: Processors,
}

impl OneProcessor {
    /// Brings both together. Where that cannot be, all works as well.
    pub fn with(other: Pid) -> Option<OneProcessor> {
        let together = OneProcessor {
            other,
            own_before: allowed(SELF).ok()?,
            others_before: allowed(other).ok()?,
        };
        let processor = current().ok()?;
        let mut one: Processors = [0; 128];
        *one.get_mut(processor / 64)? = 1 << (processor % 64);
        allow(SELF, &one).ok()?;
        // From here on what was changed is put back.
        let _ = allow(other, &one);
        Some(together)
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        let _ = allow(self.other, &self.others_before);
        let _ = allow(SELF, &self.own_before);
    }
}

fn current() -> Result<usize> {
    let mut processor = 0u32;
    // SAFETY: room for a number; the node is not asked for.
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
    // SAFETY: room of the size that is told.
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
