//! The offsets of open files. A copy shares them with the process that it was copied from, which may have read on before it died.
//!
//! They are noted when the other threads have stopped, and put back before threads run in the copy: a thread that reads a file must go on where
//! it was.

use crate::sys::{Fd, offset, seek};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

/// A file, and where the next byte is read or written; negative if that is not known.
#[repr(C)]
pub struct OpenFile {
    descriptor: i64,
    offset: i64,
}

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
        file.offset = offset(file.descriptor as Fd).map_or(-1, |offset| offset as i64);
    });
}

/// In the copy, before it has other threads: the files are where they were.
pub fn put_back() {
    each(|file| {
        if let Ok(offset) = usize::try_from(file.offset) {
            let _ = seek(file.descriptor as Fd, offset);
        }
    });
}

fn each(work: impl Fn(&mut OpenFile)) {
    let files = FILES.load(SeqCst);
    for index in 0..COUNT.load(SeqCst) {
        // SAFETY: what `note` was given.
        work(unsafe { &mut *files.add(index) });
    }
}
