//! The task that owns a session: it alone speaks with the head and with init, one thing at a time.
//!
//! The task has one part for each thing that it looks after, and a part has no other owner. Events of init are taken in
//! `live/head_process.rs`, commands of handles in `dispatch.rs`, and frames of the head during a cell in `cell_run.rs`.

pub(crate) mod calls;
pub(crate) mod capture;
pub(crate) mod cell_events;
pub(crate) mod cell_frames;
pub(crate) mod cell_result;
pub(crate) mod cell_run;
pub(crate) mod clock;
pub(crate) mod commands;
pub(crate) mod dispatch;
pub(crate) mod exit_status;
pub(crate) mod outputs;
mod pause;
mod place;
mod questions;

use crate::actor::commands::CommandQueue;
use crate::actor::exit_status::died_idle;
use crate::actor::outputs::Outputs;
use crate::files::disk_guard::WatchTarget;
use crate::files::tracker::Changes;
use crate::journal::{JournalRecord, SessionJournal};
use crate::live::LiveSession;
use crate::network::NetworkAccess;
use crate::runtime::RuntimeState;
use crate::session::SessionShared;
use cellblock_protocol::{Event, ProcessStatus, SessionOptions, Wall};
use cellblock_sandbox::HeadExit;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The task of one session.
pub(crate) struct Actor {
    /// The first field: the session's directory and descriptors go before callers see that their commands are dropped.
    pub(crate) live: LiveSession,
    pub(crate) shared: Arc<SessionShared>,
    /// The runtime that new processes and forks of the session are made by; `None` in a container. A session in the pool has none: the
    /// runtime holds the pool.
    pub(crate) runtime: Option<Arc<RuntimeState>>,
    pub(crate) options: SessionOptions,
    pub(crate) commands: CommandQueue,
    pub(crate) cells: CellHistory,
    pub(crate) network_access: NetworkAccess,
    /// The last field: handles that wait for the end of the session see it go after everything else.
    pub(crate) _presence: watch::Sender<()>,
}

/// The cells that a session ran: their numbers, their output, their records.
#[derive(Default)]
pub(crate) struct CellHistory {
    /// The number of the last cell; 0 before the first.
    pub(crate) last_number: u64,
    pub(crate) outputs: Outputs,
    pub(crate) journal: SessionJournal,
}

impl CellHistory {
    /// No cells yet; the next one has the number after this one.
    pub(crate) fn after(last_number: u64) -> CellHistory {
        CellHistory {
            last_number,
            ..CellHistory::default()
        }
    }
}

/// Whether the session goes on after a cell or a question.
#[derive(Clone, Debug)]
pub(crate) enum AfterCell {
    /// The head lives.
    GoesOn,
    /// The session is over, and why.
    Over(String),
}

/// The reason why a session ends. A panic in its task is one: its processes are ended and its callers hear of it as of any other.
async fn or_panic(serving: impl Future<Output = String>) -> String {
    let mut serving = pin!(serving);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| serving.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("without a reason");
            Poll::Ready(format!(
                "the host failed, which is a bug of Cellblock: {text}"
            ))
        })
    })
    .await
}

impl Actor {
    /// Serves the handles until the last is dropped, the session is closed, or it dies.
    pub(crate) async fn serve(mut self) {
        let reason = or_panic(self.serve_until_over()).await;
        let _ = self.shared.end.set(reason.clone());
        self.live.base.logs.ring.end();
        // Handles that are waiting see their replies dropped and read the reason.
        self.commands.refuse_all().await;
        self.live
            .base
            .processes
            .expect_end(ProcessStatus::SessionEnded);
        self.live.end_parts().await;
        self.cells.journal.recorder.close(&reason).await;
        let closing = self.commands.take_closing();
        // The session's descriptors and its directory go too before any caller hears that nothing is left.
        drop(self);
        for closing in closing {
            let _ = closing.send(());
        }
    }

    async fn serve_until_over(&mut self) -> String {
        let mut idle_since = Instant::now();
        self.live.checkpoints.plan();
        loop {
            if let Some(hit) = self.live.files.disk.hit() {
                self.live.end_head().await;
                return hit.reason();
            }
            self.guard_disk(WatchTarget::LeftBehind);
            let expiry = idle_since + self.options.limits.idle;
            let due = self.live.checkpoints.due();
            if let Some(HeadExit { exit, .. }) = self.live.head.ended.take() {
                // No cell ran: what happened to the files was done from outside.
                self.live.note_outside_changes().await;
                let reason = died_idle(exit);
                let (after, restoration) = self.survive(reason, Changes::default(), None).await;
                if let AfterCell::Over(reason) = after {
                    return reason;
                }
                self.announce_restored();
                self.tell_of(&restoration);
                continue;
            }
            if let Some(command) = self.commands.take_postponed() {
                match self.dispatch(command).await {
                    AfterCell::GoesOn => idle_since = Instant::now(),
                    AfterCell::Over(reason) => return reason,
                }
                continue;
            }
            tokio::select! {
                biased;
                command = self.commands.receive() => {
                    let Some(command) = command else { return "its last handle was dropped".to_owned() };
                    match self.dispatch(command).await {
                        AfterCell::GoesOn => idle_since = Instant::now(),
                        AfterCell::Over(reason) => return reason,
                    }
                }
                event = self.live.init.next_event() => match event {
                    Ok(event) => self.live.note_init_event(event),
                    Err(_) => return self.live.placement.process_host.why_lost().await,
                },
                frame = self.live.head.channel.receive() => match frame {
                    // A thread that outlived its cell.
                    Ok(frame) => self.live.head.refuse_stray(&self.live.base.logs, frame).await,
                    Err(_) => match self.live.end_head().await {
                        Some(death) => self.live.head.ended = Some(death),
                        None => return self.live.placement.process_host.why_lost().await,
                    },
                },
                read = self.live.head.pipes.read() => {
                    if let Ok((_, bytes)) = read {
                        let text = String::from_utf8_lossy(bytes).into_owned();
                        self.live.base.logs.log(text);
                    }
                }
                // If it is over its limit, that is seen above.
                _ = self.live.files.disk.report() => {}
                () = sleep_until(due.unwrap_or(expiry)), if due.is_some() => {
                    self.live.arm().await;
                    self.announce_net();
                }
                () = sleep_until(expiry) => {
                    return format!("it was idle for {} s", self.options.limits.idle.as_secs());
                }
            }
        }
    }

    /// Holds the session to its disk limit.
    pub(crate) fn guard_disk(&mut self, duty: WatchTarget) {
        let limit = self.disk_limit();
        self.live.guard_disk(duty, limit);
    }

    /// The bytes that the session may add on disk; `None` for no limit.
    pub(crate) fn disk_limit(&self) -> Option<u64> {
        let walled = !self.options.isolation.without.contains(&Wall::Disk);
        walled.then_some(self.options.limits.disk)
    }

    /// Tells the readers of the session's log (not those of a cell) that the session went back.
    pub(crate) fn announce_restored(&self) {
        let checkpoint = self.live.checkpoints.current();
        self.live.base.logs.send(Event::Restored { checkpoint });
        let stands = checkpoint;
        self.cells
            .journal
            .recorder
            .note(JournalRecord::Restored { stands });
    }

    /// Tells the readers of the session's log when the checkpoint status of the next cell has changed since the last report.
    fn announce_net(&mut self) {
        let checkpoint = self.live.checkpoints.state();
        if (checkpoint.status, &checkpoint.reason)
            != (
                self.live.checkpoints.announced.status,
                &self.live.checkpoints.announced.reason,
            )
        {
            self.live.checkpoints.announced = checkpoint.clone();
            self.live.base.logs.send(Event::Checkpoint { checkpoint });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_a_reason_for_the_end() {
        async fn fails() -> String {
            tokio::task::yield_now().await;
            panic!("a part of the session")
        }
        assert_eq!(
            or_panic(fails()).await,
            "the host failed, which is a bug of Cellblock: a part of the session"
        );
        assert_eq!(or_panic(async { "closed".to_owned() }).await, "closed");
    }
}
