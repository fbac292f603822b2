//! The offsets of open files, and pipes that were empty. A copy shares them with the process that it was copied from, which may have read on,
//! or written, before it died.
//!
//! They are noted when the other threads have stopped, and put back before threads run in the copy: a thread that reads a file must go on where
//! it was, and a pool must not find the work of a cell that was taken back in its pipes.

use crate::sys::{Fd, Poll, nr, offset, poll, read, seek, status, syscall};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

/// A file, and where the next byte is read or written; negative if that is not known. Or the end of a pipe that is read from.
#[repr(C)]
pub struct OpenFile {
    descriptor: i64,
    offset: i64,
}

impl OpenFile {
    /// The number of its descriptor.
    pub fn descriptor(&self) -> Fd {
        self.descriptor as Fd
    }
}

/// In the place of an offset: a pipe that was empty.
const EMPTY_PIPE: i64 = -2;

static FILES: AtomicPtr<OpenFile> = AtomicPtr::new(null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Notes the offsets of these files. The other threads have stopped.
///
/// # Safety
/// The memory must stay as it is until the process that is copied, or its copy, has noted others.
pub unsafe fn note(files: *mut OpenFile, count: usize) {
    FILES.store(files, SeqCst);
    COUNT.store(count, SeqCst);
    each(|file| {
        file.offset = match offset(file.descriptor()) {
            Ok(offset) => offset as i64,
            Err(_) if is_empty_pipe(file.descriptor()) => EMPTY_PIPE,
            Err(_) => -1,
        };
    });
}

/// In the copy, before it has other threads: the files are where they were, and the pipes that were empty are.
pub fn put_back() {
    each(|file| {
        if let Ok(offset) = usize::try_from(file.offset) {
            let _ = seek(file.descriptor(), offset);
        } else if file.offset == EMPTY_PIPE {
            drain(file.descriptor());
        }
    });
}

fn is_empty_pipe(pipe: Fd) -> bool {
    const FIONREAD: usize = 0x541B;
    let mut waiting = -1i32;
    let words = [pipe as usize, FIONREAD, &raw mut waiting as usize];
    // SAFETY: a number that lives through the call.
    let outcome = unsafe { syscall(nr::IOCTL, words) };
    status(pipe).is_ok_and(|status| status.is_pipe()) && outcome.is_ok() && waiting == 0
}

/// Reads what a pipe holds. The processes that could fill it meanwhile have ended.
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
