//! The head as a process: interrupting and ending it through init, and what init tells of processes.

use crate::live::{LiveSession, SWEEP_LIMIT};
use crate::wire::init_link::InitEvent;
use cellblock_protocol::guest::ToHead;
use cellblock_sandbox::{HeadExit, ToInit};
use std::time::Duration;
use tokio::time::timeout;

impl LiveSession {
    /// Ends the head with all it started, and returns how it ended; `None` when init is gone too. The newest standby will go on.
    pub(crate) async fn end_head(&mut self) -> Option<HeadExit> {
        self.end_head_for(self.checkpoints.standbys.back().map(|newest| newest.pid))
            .await
    }

    /// Ends the head as [`end_head`](LiveSession::end_head) does, with another standby that will go on. Init wakes it while the head is taken apart.
    pub(crate) async fn end_head_for(&mut self, next: Option<u32>) -> Option<HeadExit> {
        if let Some(death) = self.head.ended.take() {
            return Some(death);
        }
        self.init.tell(ToInit::Sweep(next)).await.ok()?;
        timeout(SWEEP_LIMIT, self.wait_for_exit()).await.ok()?
    }

    /// Interrupts a cell as Ctrl-C does. The signal may come before the code has begun; the frame tells which cell it was for.
    pub(crate) async fn interrupt_head(&self, cell: u64) {
        const SIGINT: i32 = 2;
        /// A head that does not read is interrupted all the same.
        const SEND_TIMEOUT: Duration = Duration::from_millis(100);
        let _ = timeout(
            SEND_TIMEOUT,
            self.head.channel.send(&ToHead::Interrupt { cell }),
        )
        .await;
        let _ = self.init.tell(ToInit::Signal(SIGINT)).await;
    }

    /// Makes a system call return in which the head waits, and does nothing else. Python looks for signals between two steps and
    /// when a call was interrupted: one that came just before a long call would be seen after it.
    pub(crate) async fn nudge_head(&self) {
        const SIGURG: i32 = 23;
        let _ = self.init.tell(ToInit::Signal(SIGURG)).await;
    }

    /// Asks the head to write on its standard error where it is. The signal is the one that `interrupts.py` names.
    pub(crate) async fn ask_for_place(&self) {
        // SIGRTMIN of libc, and 6.
        const PLACE_SIGNAL: i32 = 34 + 6;
        let _ = self.init.tell(ToInit::Signal(PLACE_SIGNAL)).await;
    }

    /// A head that closed its channel is about to die, or pretends to: after a moment it is ended.
    pub(crate) async fn wait_for_head_exit(&mut self) -> Option<HeadExit> {
        const EXIT_GRACE: Duration = Duration::from_millis(200);
        match timeout(EXIT_GRACE, self.wait_for_exit()).await {
            Ok(death) => death,
            Err(_) => self.end_head().await,
        }
    }

    /// Waits until init says that the head ended; `None` when init is gone.
    async fn wait_for_exit(&mut self) -> Option<HeadExit> {
        loop {
            self.note_init_events();
            if let Some(death) = self.head.ended.take() {
                return Some(death);
            }
            let event = self.init.next_event().await.ok()?;
            self.note_init_event(event);
        }
    }

    /// Takes note of an event of init's. The one place that says what an event means for the session.
    pub(crate) fn note_init_event(&mut self, event: InitEvent) {
        match event {
            InitEvent::HeadEnded(death) => self.head.ended = Some(death),
            InitEvent::StandbyLost { pid } => self.checkpoints.lose(pid),
        }
    }

    /// Takes note of the events that came while an answer was waited for.
    pub(crate) fn note_init_events(&mut self) {
        while let Some(event) = self.init.take_event() {
            self.note_init_event(event);
        }
    }

    /// Tells init that the host is done, and waits until it has gone with everything in it.
    pub(crate) async fn end_processes(&mut self) {
        let _ = timeout(SWEEP_LIMIT, self.init.close()).await;
    }
}
