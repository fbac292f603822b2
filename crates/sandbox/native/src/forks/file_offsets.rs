//! The offsets of open files, pipes that were empty, and what `eventfd`s count. A copy shares them with the process that it was copied from,
//! which may have read on, or written, before it died.
//!
//! They are noted when the other threads have stopped, and put back before threads run in the copy: a thread that reads a file must go on where
//! it was, and a pool must not find the work of a cell that was taken back in its pipes.

use crate::forks::event_descriptors::count_of;
use crate::sys::{Fd, Poll, nr, offset, poll, read, seek, status, syscall, write_all};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

/// An open file, and what is noted of it.
#[repr(C)]
pub struct OpenFile {
    descriptor: i64,
    kind: i64,
    value: i64,
}

impl OpenFile {
    /// The number of its descriptor.
    pub fn descriptor(&self) -> Fd {
        self.descriptor as Fd
    }

    fn look(&mut self) {
        let number = self.descriptor();
        // The offset of a counter can be asked for as well, and means nothing.
        (self.kind, self.value) = match status(number) {
            Ok(status) if status.is_pipe() && is_empty(number) => (EMPTY_PIPE, 0),
            Ok(status) if status.is_file() => {
                offset(number).map_or((UNKNOWN, 0), |offset| (OFFSET, offset as i64))
            }
            Ok(_) => count_of(number).map_or((UNKNOWN, 0), |count| (COUNTER, count as i64)),
            Err(_) => (UNKNOWN, 0),
        };
    }

    fn put_back(&self) {
        match self.kind {
            OFFSET => {
                let _ = seek(self.descriptor(), self.value as usize);
            }
            EMPTY_PIPE => drain(self.descriptor()),
            COUNTER => set_counter(self.descriptor(), self.value as u64),
            _ => {}
        }
    }
}

/// What is noted: nothing, where the next byte is read or written, that the pipe is empty, or what the `eventfd` counts to.
const UNKNOWN: i64 = 0;
const OFFSET: i64 = 1;
const EMPTY_PIPE: i64 = 2;
const COUNTER: i64 = 3;

static FILES: AtomicPtr<OpenFile> = AtomicPtr::new(null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Notes the offsets of these files. The other threads have stopped.
///
/// # Safety
/// The memory must stay as it is until the process that is copied, or its copy, has noted others.
pub unsafe fn note(files: *mut OpenFile, count: usize) {
    FILES.store(files, SeqCst);
    COUNT.store(count, SeqCst);
    each(OpenFile::look);
}

/// In the copy, before it has other threads: the files are where they were, the pipes that were empty are, and counters count to what they did.
pub fn put_back() {
    each(|file| file.put_back());
}

fn set_counter(number: Fd, count: u64) {
    if count_of(number).is_some_and(|now| now > count) {
        drain(number);
    }
    // One that counts in steps of one may still be too high. The guest compares, and names it.
    if let Some(missing) = count_of(number).and_then(|now| count.checked_sub(now))
        && missing > 0
    {
        let _ = write_all(number, &missing.to_ne_bytes());
    }
}

fn is_empty(pipe: Fd) -> bool {
    const FIONREAD: usize = 0x541B;
    let mut waiting = -1i32;
    let words = [pipe as usize, FIONREAD, &raw mut waiting as usize];
    // SAFETY: a number that lives through the call.
    let outcome = unsafe { syscall(nr::IOCTL, words) };
    outcome.is_ok() && waiting == 0
}

/// Reads what a pipe or a counter holds. The processes that could fill it meanwhile have ended.
fn drain(pipe: Fd) {
    const IS_READABLE: i16 = 1;
    // As many readings as empty the largest pipe.
    const MAX_READINGS: usize = 1024;
    let mut buffer = [0; 4096];
    for _ in 0..MAX_READINGS {
        let mut wanted = [Poll::readable(pipe)];
        if poll(&mut wanted, 0) == 0 || wanted[0].seen & IS_READABLE == 0 {
            return;
        }
        match read(pipe, &mut buffer) {
            Ok(1..) => {}
            Ok(0) | Err(_) => return,
        }
    }
}

fn each(work: impl Fn(&mut OpenFile)) {
    let files = FILES.load(SeqCst);
    for index in 0..COUNT.load(SeqCst) {
        // SAFETY: what `note` was given.
        work(unsafe { &mut *files.add(index) });
    }
}
