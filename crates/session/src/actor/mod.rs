//! The task that owns a session: it alone speaks with the head and with init, one thing at a time.
//!
//! The task has one part for each thing that it looks after, and a part has no other owner. Events of init are taken in
//! `head_process.rs`, commands of handles in `dispatch.rs`, and frames of the head during a cell in `cell_run.rs`.

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
mod file_changes;
pub(crate) mod head;
mod head_process;
pub(crate) mod outputs;
mod pause;
mod place;
mod questions;

use crate::actor::commands::CommandQueue;
use crate::actor::exit_status::died_idle;
use crate::actor::head::Head;
use crate::actor::outputs::Outputs;
use crate::checkpoint::Checkpoints;
use crate::files::borrowed::BorrowedDirectory;
use crate::files::disk::Disk;
use crate::files::disk_guard::WatchTarget;
use crate::files::shared_history::History;
use crate::files::tracker::Changes;
use crate::journal::{Record, SessionJournal};
use crate::network::NetworkAccess;
use crate::session::Shared;
use crate::spawn::fork::Lineage;
use crate::spawn::process_host::ProcessHost;
use crate::wire::init_link::InitLink;
use cellblock_protocol::{Event, ProcessStatus, SessionOptions};
use cellblock_sandbox::{Cgroup, HeadExit, SpawnRequest};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// How long init may take to end everything in a session. A fork bomb takes 30 ms.
const SWEEP_LIMIT: Duration = Duration::from_secs(10);

/// The task of one session.
pub(crate) struct Actor {
    /// The first field: the directory goes before anything else does.
    pub(crate) directory: SessionDirectory,
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: SessionOptions,
    pub(crate) commands: CommandQueue,
    pub(crate) init: InitLink,
    pub(crate) head: Head,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) cells: CellHistory,
    pub(crate) files: SessionFiles,
    pub(crate) placement: Placement,
    pub(crate) network_access: NetworkAccess,
    /// The last field: handles that wait for the end of the session see it go after everything else.
    pub(crate) presence: watch::Sender<()>,
}

/// The host's own directory of a session: spilled output, copies of files. It is removed when this is dropped.
pub(crate) struct SessionDirectory(PathBuf);

impl SessionDirectory {
    pub(crate) fn new(path: PathBuf) -> SessionDirectory {
        SessionDirectory(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SessionDirectory {
    fn drop(&mut self) {
        let _ = cellblock_sandbox::remove_directory(&self.0);
    }
}

/// The cells that a session ran: their numbers, their output, their records.
#[derive(Default)]
pub(crate) struct CellHistory {
    /// The number of the last cell; 0 before the first.
    pub(crate) last_number: u64,
    pub(crate) outputs: Outputs,
    pub(crate) journal: SessionJournal,
}

/// The files of a session: what they take on disk, their earlier versions, and what is borrowed for them.
pub(crate) struct SessionFiles {
    pub(crate) disk: Disk,
    pub(crate) history: History,
    /// Copies files of the user's before they are changed. The task ends when init is done with the session.
    pub(crate) preserve_task: Option<JoinHandle<()>>,
    /// A directory of the user's that belongs to the session's user for as long as the session works in it.
    pub(crate) borrowed: Option<BorrowedDirectory>,
    /// Whether code of the session could run on when the last cell ended.
    pub(crate) is_left_running: bool,
}

/// The place of a session's processes, and their bounds.
pub(crate) struct Placement {
    pub(crate) process_host: ProcessHost,
    pub(crate) cgroup: Option<Arc<Cgroup>>,
    /// The session that this one was forked from, and what its own forks will have.
    pub(crate) lineage: Lineage,
    /// The walls around the session, in the words of a result.
    pub(crate) isolation: String,
    /// What the session's processes were made by, and a spawner will be; `None` in a container.
    pub(crate) spawn_request: Option<SpawnRequest>,
}

impl Placement {
    /// How often the kernel ended a process of the session for want of memory.
    pub(crate) fn memory_kills(&self) -> u64 {
        let cgroup = self.cgroup.as_ref();
        cgroup.map_or(0, |cgroup| cgroup.memory_kills())
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
        self.shared.logs.ring.end();
        // Handles that are waiting see their replies dropped and read the reason.
        self.commands.refuse_all().await;
        self.shared
            .processes
            .expect_end(ProcessStatus::SessionEnded);
        self.end_parts().await;
        self.cells.journal.recorder.close(&reason).await;
        let closing = self.commands.take_closing();
        // The session's descriptors and its directory go too before any caller hears that nothing is left.
        drop(self);
        for closing in closing {
            let _ = closing.send(());
        }
    }

    /// Ends what runs for the session: its processes, and the tasks that hold its files.
    pub(crate) async fn end_parts(&mut self) {
        self.end_processes().await;
        self.placement.process_host.end().await;
        self.end_preserve_task().await;
        self.return_borrowed().await;
    }

    async fn serve_until_over(&mut self) -> String {
        let mut idle_since = Instant::now();
        self.checkpoints.plan();
        loop {
            if let Some(hit) = self.files.disk.hit() {
                self.end_head().await;
                return hit.reason();
            }
            self.guard_disk(WatchTarget::LeftBehind);
            let expiry = idle_since + self.options.limits.idle;
            let due = self.checkpoints.due();
            if let Some(HeadExit { exit, .. }) = self.head.ended.take() {
                // No cell ran: what happened to the files was done from outside.
                self.note_outside_changes().await;
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
                event = self.init.next_event() => match event {
                    Ok(event) => self.note_init_event(event),
                    Err(_) => return self.placement.process_host.why_lost().await,
                },
                frame = self.head.channel.receive() => match frame {
                    // A thread that outlived its cell.
                    Ok(frame) => self.head.refuse_stray(&self.shared.logs, frame).await,
                    Err(_) => match self.end_head().await {
                        Some(death) => self.head.ended = Some(death),
                        None => return self.placement.process_host.why_lost().await,
                    },
                },
                read = self.head.pipes.read() => {
                    if let Ok((_, bytes)) = read {
                        let text = String::from_utf8_lossy(bytes).into_owned();
                        self.shared.logs.log(text);
                    }
                }
                // If it is over its limit, that is seen above.
                _ = self.files.disk.report() => {}
                () = sleep_until(due.unwrap_or(expiry)), if due.is_some() => {
                    self.arm().await;
                    self.announce_net();
                }
                () = sleep_until(expiry) => {
                    return format!("it was idle for {} s", self.options.limits.idle.as_secs());
                }
            }
        }
    }

    /// Tells the readers of the session's log (not those of a cell) that the session went back.
    pub(crate) fn announce_restored(&self) {
        let checkpoint = self.checkpoints.current();
        self.shared.logs.send(Event::Restored { checkpoint });
        let stands = checkpoint;
        self.cells
            .journal
            .recorder
            .note(Record::Restored { stands });
    }

    /// Tells the readers of the session's log when the checkpoint status of the next cell has changed since the last report.
    fn announce_net(&mut self) {
        let checkpoint = self.checkpoints.state();
        if (checkpoint.status, &checkpoint.reason)
            != (
                self.checkpoints.announced.status,
                &self.checkpoints.announced.reason,
            )
        {
            self.checkpoints.announced = checkpoint.clone();
            self.shared.logs.send(Event::Checkpoint { checkpoint });
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
