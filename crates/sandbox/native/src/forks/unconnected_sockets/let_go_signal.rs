//! The word of a standby that it holds no address any more. The head waits for it before it says that there is a standby: what the next cell
//! closes is free at once.

use crate::sys::{Fd, Poll, close, nr, poll, syscall, write_all};

/// An `eventfd` that the head and its new copy share; none where no socket was recorded, or it could not be made.
#[derive(Clone, Copy)]
pub struct LetGoSignal(Option<Fd>);

impl LetGoSignal {
    /// Before the copy is made.
    pub fn prepare() -> LetGoSignal {
        const CLOEXEC: usize = 0o2_000_000;
        if super::all().is_empty() {
            return LetGoSignal(None);
        }
        // SAFETY: numbers only.
        let made = unsafe { syscall(nr::EVENTFD2, [0, CLOEXEC]) };
        LetGoSignal(made.ok().map(|descriptor| descriptor as Fd))
    }

    /// In the copy, when it has let go.
    pub fn send(self) {
        if let Some(descriptor) = self.0 {
            let _ = write_all(descriptor, &1u64.to_ne_bytes());
            close(descriptor);
        }
    }

    /// In the original. A copy that gets no processor for so long lets go a moment later.
    pub fn wait(self) {
        const MAX_WAIT_MILLISECONDS: i32 = 100;
        if let Some(descriptor) = self.0 {
            poll(&mut [Poll::readable(descriptor)], MAX_WAIT_MILLISECONDS);
            close(descriptor);
        }
    }

    /// In the original, where there is no copy.
    pub fn close(self) {
        if let Some(descriptor) = self.0 {
            close(descriptor);
        }
    }
}
