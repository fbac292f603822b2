//! Init between code that changes a file and the host that keeps what the file was.

use super::Session;
use crate::notify::{self, Question};
use crate::sys;

impl Session {
    /// A file is about to be changed. Nobody is refused that; the call waits if there is something to keep.
    pub(super) fn keep(&mut self, question: &Question) {
        let waits = match &mut self.init.keeper {
            Some(keeper) => keeper.tell(question),
            None => false,
        };
        if !waits {
            notify::answer(self.init.listener, question, true);
        }
    }

    pub(super) fn hear_keeper(&mut self) {
        let listener = self.init.listener;
        if let Some(keeper) = &mut self.init.keeper {
            keeper.hear(|id| notify::let_go_on(listener, id));
        }
    }

    pub(super) fn keeps_someone_waiting(&self) -> bool {
        let keeper = self.init.keeper.as_ref();
        keeper.is_some_and(|keeper| !keeper.waiting.is_empty())
    }

    /// A host that is slow must not hold up the session for ever.
    pub(super) fn release_overdue(&mut self) {
        if !self.keeps_someone_waiting() {
            return;
        }
        let (listener, now) = (self.init.listener, sys::monotonic_milliseconds());
        if let Some(keeper) = &mut self.init.keeper {
            let release = |id| notify::let_go_on(listener, id);
            keeper.waiting.release_overdue(now, release);
        }
    }
}
