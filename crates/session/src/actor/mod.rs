//! The task that owns a session: it alone speaks with the head and with init, one thing at a time.

pub(crate) mod calls;
pub(crate) mod capture;
pub(crate) mod cell_result;
pub(crate) mod cell_run;
pub(crate) mod clock;
pub(crate) mod exit_status;
mod file_changes;
pub(crate) mod outputs;
pub(crate) mod pending_queries;

use crate::Error;
use crate::actor::cell_run::CellRun;
use crate::actor::exit_status::Ending;
use crate::actor::outputs::Outputs;
use crate::actor::pending_queries::PendingQueries;
use crate::checkpoint::Checkpoints;
use crate::checkpoint::steps::Steps;
use crate::files::borrowed::BorrowedDirectory;
use crate::files::disk::Disk;
use crate::files::disk_guard::WatchTarget;
use crate::files::shared_history::History;
use crate::files::tracker::Changes;
use crate::journal::{Record, SessionJournal};
use crate::network::{NetworkAccess, OpenedListener};
use crate::session::{Session, Shared};
use crate::spawn::fork::Lineage;
use crate::spawn::process_host::ProcessHost;
use crate::wire::channel::Channel;
use crate::wire::init_link::{InitEvent, InitLink};
use crate::wire::pipes::Pipes;
use cellblock_protocol::guest::{FromHead, Reply, ToHead};
use cellblock_protocol::{
    Cell, CellResult, CheckpointList, CheckpointState, Event, SessionOptions, StateOutcome, Stream,
    Undone,
};
use cellblock_sandbox::{Cgroup, Death, Exit, ToInit};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

/// How long init may take to end everything in a session. A fork bomb takes 30 ms.
const SWEEP_LIMIT: Duration = Duration::from_secs(10);
/// How long a cell may take to listen to an interrupt.
pub(crate) const INTERRUPT_GRACE: Duration = Duration::from_secs(2);

/// What an operation does to the session's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Reads the state.
    ReadOnly,
    /// Reads the state, and can be asked for while code waits for the answer to a call.
    ReadOnlyDuringCall,
    /// Changes the state.
    Changes,
}

/// What a handle asks of its session.
pub(crate) enum Command {
    Run {
        cell: Cell,
        /// The number it shall have, where it is not just the next one.
        number: Option<u64>,
        events: Option<mpsc::Sender<Event>>,
        reply: oneshot::Sender<Result<CellResult, Error>>,
    },
    Ask {
        operation: Box<dyn FnOnce(u64) -> ToHead + Send + Sync>,
        effect: Effect,
        limit: Duration,
        reply: oneshot::Sender<Result<Reply, Error>>,
    },
    Answer(ToHead),
    Interrupt,
    ReadOutput {
        cell: u64,
        stream: Stream,
        offset: u64,
        length: u64,
        reply: oneshot::Sender<Result<String, Error>>,
    },
    Undo {
        count: usize,
        reply: oneshot::Sender<Result<Undone, Error>>,
    },
    Checkpoints {
        reply: oneshot::Sender<CheckpointList>,
    },
    Fork {
        reply: oneshot::Sender<Result<Session, Error>>,
    },
    Close {
        reply: oneshot::Sender<()>,
    },
}

/// The session's own side of everything.
pub(crate) struct Actor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: SessionOptions,
    /// How it is walled in, in the words of a result.
    pub(crate) isolation: String,
    pub(crate) channel: Channel,
    pub(crate) init: InitLink,
    pub(crate) pipes: Pipes,
    pub(crate) disk: Disk,
    pub(crate) history: History,
    /// Keeps files of the user's before they are changed. It ends when init is done with the session.
    pub(crate) preserve_task: Option<JoinHandle<()>>,
    pub(crate) outputs: Outputs,
    pub(crate) journal: SessionJournal,
    pub(crate) cgroup: Option<Arc<Cgroup>>,
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
    /// Where spilled output and other files of the session are kept.
    pub(crate) directory: PathBuf,
    pub(crate) cells: u64,
    pub(crate) questions: u64,
    /// What there is to go back to.
    pub(crate) checkpoints: Checkpoints,
    /// What was done since the newest of them.
    pub(crate) steps: Steps,
    /// What was asked for while cells ran again: it waits until they have.
    pub(crate) postponed: VecDeque<Command>,
    /// The safety net that was last told of.
    pub(crate) announced_checkpoint: CheckpointState,
    /// Whether code of the session could run on when the last cell ended.
    pub(crate) is_left_running: bool,
    /// The head's end, when init told it while something else was waited for.
    pub(crate) ended: Option<Death>,
    /// Those who asked something while a cell ran.
    pub(crate) pending_queries: PendingQueries,
    /// Milliseconds of CPU that the head's earlier cells took.
    pub(crate) spent_ms: f64,
    /// The caller that waits for the session to be closed.
    pub(crate) closing: Option<oneshot::Sender<()>>,
    /// A directory of the user's that is ours for as long as we work in it.
    pub(crate) borrowed: Option<BorrowedDirectory>,
    /// Listeners for the network. They are served once the session was handed to its user.
    pub(crate) opened_listeners: Vec<OpenedListener>,
    pub(crate) network_access: NetworkAccess,
    /// Where its processes are.
    pub(crate) process_host: ProcessHost,
    /// The session that it was forked from, and what its own forks will have.
    pub(crate) lineage: Lineage,
}

/// What a cell or a question left behind.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// The head lives.
    Lives,
    /// The session is over, and why.
    Over(String),
}

impl Actor {
    /// Serves the handles until the last is dropped, the session is closed, or it dies.
    pub(crate) async fn serve(mut self) {
        let reason = self.serve_until_over().await;
        let _ = self.shared.end.set(reason.clone());
        // Handles that are waiting see their replies dropped and read the reason.
        self.commands.close();
        self.end_processes().await;
        self.process_host.end().await;
        self.end_preserve_task().await;
        self.return_borrowed().await;
        self.journal.recorder.close(&reason).await;
        if let Some(closing) = self.closing.take() {
            // Its descriptors and its directory go too before anyone hears that nothing is left.
            drop(self);
            let _ = closing.send(());
        }
    }

    async fn serve_until_over(&mut self) -> String {
        let mut idle_since = Instant::now();
        self.checkpoints.plan();
        loop {
            if let Some(hit) = self.disk.hit() {
                self.end_head().await;
                return hit.reason();
            }
            self.guard_disk(WatchTarget::LeftBehind);
            let expiry = idle_since + self.options.limits.idle;
            let due = self.checkpoints.due();
            if let Some(Death { exit, .. }) = self.ended.take() {
                // No cell ran: what happened to the files was done from outside.
                self.note_outside_changes().await;
                let reason = died_idle(exit);
                let (fate, restoration) = self.survive(reason, Changes::default(), None).await;
                if let Fate::Over(reason) = fate {
                    return reason;
                }
                self.announce_restored();
                self.tell_of(&restoration);
                continue;
            }
            if let Some(command) = self.postponed.pop_front() {
                match self.obey(command).await {
                    Fate::Lives => idle_since = Instant::now(),
                    Fate::Over(reason) => return reason,
                }
                continue;
            }
            tokio::select! {
                biased;
                command = self.commands.recv() => {
                    let Some(command) = command else { return "its last handle was dropped".to_owned() };
                    match self.obey(command).await {
                        Fate::Lives => idle_since = Instant::now(),
                        Fate::Over(reason) => return reason,
                    }
                }
                event = self.init.next_event() => match event {
                    Ok(event) => self.note_init_event(event),
                    Err(_) => return self.process_host.why_lost().await,
                },
                frame = self.channel.receive() => match frame {
                    // A thread that outlived its cell.
                    Ok(frame) => self.refuse_stray(frame).await,
                    Err(_) => match self.end_head().await {
                        Some(death) => self.ended = Some(death),
                        None => return self.process_host.why_lost().await,
                    },
                },
                read = self.pipes.read() => {
                    if let Ok((_, bytes)) = read {
                        let text = String::from_utf8_lossy(bytes).into_owned();
                        self.shared.log(text);
                    }
                }
                // If it is over its limit, that is seen above.
                _ = self.disk.report() => {}
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

    async fn obey(&mut self, command: Command) -> Fate {
        match command {
            Command::Run {
                cell,
                number,
                events,
                reply,
            } => {
                self.cells = number.unwrap_or(0).max(self.cells + 1);
                self.arm_before_cell().await;
                let (result, fate) = self.run(cell.clone(), self.cells, events).await;
                let record = self.journal.ended(&result, self.checkpoints.current());
                self.announced_checkpoint = result.state.checkpoint.clone();
                let _ = reply.send(Ok(result));
                self.journal.cell(&record.ended);
                if record.ended.result.state.outcome == StateOutcome::Kept {
                    self.note_cell(cell, record).await;
                }
                fate
            }
            Command::Ask {
                operation,
                effect,
                limit,
                reply,
            } => {
                if effect == Effect::Changes && self.checkpoints.is_of_several_cells() {
                    self.arm().await;
                }
                let (answer, fate) = self.ask(operation, limit).await;
                if effect == Effect::Changes {
                    // An object that is forgotten may still write to its file.
                    self.note_changes_of(self.checkpoints.current()).await;
                    self.checkpoints.revise();
                }
                let _ = reply.send(answer);
                fate
            }
            Command::ReadOutput {
                cell,
                stream,
                offset,
                length,
                reply,
            } => {
                let _ = reply.send(self.outputs.read(cell, stream, offset, length));
                Fate::Lives
            }
            Command::Undo { count, reply } => {
                let outcome = self.undo(count).await;
                if let Ok(Undone { cell, .. }) = outcome {
                    let (count, stands) = (count as u64, cell);
                    self.journal.recorder.note(Record::Undone { count, stands });
                }
                let fate = match &outcome {
                    Err(Error::Ended { reason, .. }) => Fate::Over(reason.clone()),
                    _ => Fate::Lives,
                };
                let _ = reply.send(outcome);
                fate
            }
            Command::Checkpoints { reply } => {
                self.arm().await;
                let _ = reply.send(self.checkpoints.list());
                Fate::Lives
            }
            Command::Fork { reply } => {
                let (outcome, fate) = self.fork().await;
                let _ = reply.send(outcome);
                fate
            }
            Command::Close { reply } => {
                self.closing = Some(reply);
                Fate::Over("it was closed".to_owned())
            }
            // Too late: nothing is running.
            Command::Answer(_) | Command::Interrupt => Fate::Lives,
        }
    }

    /// Runs one cell to its end.
    pub(crate) async fn run(
        &mut self,
        cell: Cell,
        number: u64,
        events: Option<mpsc::Sender<Event>>,
    ) -> (CellResult, Fate) {
        let mut run = CellRun::new(self, cell, number, events).await;
        let finish = run.drive(self).await;
        run.conclude(self, finish).await
    }

    /// Tells who listens to the session, and not to a cell, that it went back.
    pub(crate) fn announce_restored(&self) {
        let checkpoint = self.checkpoints.current();
        let _ = self.shared.logs.send(Event::Restored { checkpoint });
        let stands = checkpoint;
        self.journal.recorder.note(Record::Restored { stands });
    }

    /// Tells who listens to the session when the safety net of the next cell is another one than was told last.
    fn announce_net(&mut self) {
        let checkpoint = self.checkpoints.state();
        if (checkpoint.status, &checkpoint.reason)
            != (
                self.announced_checkpoint.status,
                &self.announced_checkpoint.reason,
            )
        {
            self.announced_checkpoint = checkpoint.clone();
            let _ = self.shared.logs.send(Event::Checkpoint { checkpoint });
        }
    }

    /// Asks the head something that is not a cell.
    pub(crate) async fn ask(
        &mut self,
        operation: Box<dyn FnOnce(u64) -> ToHead + Send + Sync>,
        limit: Duration,
    ) -> (Result<Reply, Error>, Fate) {
        self.note_outside_changes().await;
        self.questions += 1;
        let question = self.questions;
        let operation = operation(question);
        let record = self.journal.operation(&operation);
        let changes = matches!(
            operation,
            ToHead::Seed { .. } | ToHead::Tools { .. } | ToHead::Reset { .. }
        );
        let step = changes.then(|| operation.clone());
        match timeout(limit, self.exchange(operation, question)).await {
            Ok(Ok(reply)) => {
                if let Some(step) = step
                    && reply.clone().done().is_ok()
                {
                    self.journal.note(record);
                    self.steps.note_operation(step);
                }
                (Ok(reply), Fate::Lives)
            }
            Ok(Err(_)) | Err(_) => {
                let reason = match self.end_head().await {
                    Some(death) => died_idle(death.exit),
                    None => self.process_host.why_lost().await,
                };
                if let Some(hit) = self.disk.hit() {
                    let (session, reason) = (self.shared.id.clone(), hit.reason());
                    let error = Error::Ended {
                        session,
                        reason: reason.clone(),
                    };
                    return (Err(error), Fate::Over(reason));
                }
                let dirty = self.disk.changes().await;
                let (fate, restoration) = self.survive(reason.clone(), dirty, None).await;
                if matches!(fate, Fate::Lives) {
                    self.announce_restored();
                    self.tell_of(&restoration);
                }
                let session = self.shared.id.clone();
                let error = match fate {
                    Fate::Lives => Error::Refused(format!(
                        "the session could not answer and went back to its last checkpoint: {reason}"
                    )),
                    Fate::Over(_) => Error::Ended { session, reason },
                };
                (Err(error), fate)
            }
        }
    }

    pub(crate) async fn exchange(
        &mut self,
        operation: ToHead,
        question: u64,
    ) -> std::io::Result<Reply> {
        self.channel.send(&operation).await?;
        self.answer_to(question).await
    }

    /// Waits for the head's answer to a question.
    pub(crate) async fn answer_to(&mut self, question: u64) -> std::io::Result<Reply> {
        loop {
            tokio::select! {
                frame = self.channel.receive() => match frame? {
                    FromHead::Reply(reply) if reply.seq == question => return Ok(reply),
                    // From a thread that outlived its cell, or a lie.
                    stray => self.refuse_stray(stray).await,
                },
                // A head that prints while it answers must not fill its pipe and stop.
                read = self.pipes.read() => {
                    let (_, bytes) = read?;
                    let text = String::from_utf8_lossy(bytes).into_owned();
                    self.shared.log(text);
                }
            }
        }
    }

    /// Ends the head with all it started, and returns how it ended; `None` when init is gone too. The newest standby will go on.
    pub(crate) async fn end_head(&mut self) -> Option<Death> {
        self.end_head_for(self.checkpoints.standbys.back().map(|newest| newest.pid))
            .await
    }

    /// The same, with another standby that will go on. Init wakes it while the head is taken apart.
    pub(crate) async fn end_head_for(&mut self, next: Option<u32>) -> Option<Death> {
        if let Some(death) = self.ended.take() {
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
        let _ = timeout(SEND_TIMEOUT, self.channel.send(&ToHead::Interrupt { cell })).await;
        let _ = self.init.tell(ToInit::Signal(SIGINT)).await;
    }

    /// Makes a system call return in which the head waits, and does nothing else. Python looks for signals between two steps and
    /// when a call was interrupted: one that came just before a long call would be seen after it.
    pub(crate) async fn nudge_head(&self) {
        const SIGURG: i32 = 23;
        let _ = self.init.tell(ToInit::Signal(SIGURG)).await;
    }

    /// A head that closed its channel is about to die, or pretends to: after a moment it is ended.
    pub(crate) async fn wait_for_death(&mut self) -> Option<Death> {
        const EXIT_GRACE: Duration = Duration::from_millis(200);
        match timeout(EXIT_GRACE, self.wait_for_exit()).await {
            Ok(death) => death,
            Err(_) => self.end_head().await,
        }
    }

    /// Waits until init says that the head ended; `None` when init is gone.
    async fn wait_for_exit(&mut self) -> Option<Death> {
        loop {
            self.note_init_events();
            if let Some(death) = self.ended.take() {
                return Some(death);
            }
            let event = self.init.next_event().await.ok()?;
            self.note_init_event(event);
        }
    }

    /// Takes note of an event of init's. The one place that says what an event means for the session.
    pub(crate) fn note_init_event(&mut self, event: InitEvent) {
        match event {
            InitEvent::HeadEnded(death) => self.ended = Some(death),
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

    /// It has copies of files in our directory.
    pub(crate) async fn end_preserve_task(&mut self) {
        if let Some(preserve_task) = self.preserve_task.take() {
            let _ = timeout(SWEEP_LIMIT, preserve_task).await;
        }
    }

    pub(crate) async fn refuse_stray(&mut self, frame: FromHead) {
        let refusal =
            "no cell is running: a call from a thread that outlived its cell is not answered"
                .to_owned();
        let answer = match frame {
            FromHead::Log { text } => {
                self.shared.log(text);
                return;
            }
            // To a question that was asked while a cell ran.
            FromHead::Reply(reply) => return self.pending_queries.answer(reply),
            FromHead::ToolCall { call, .. } | FromHead::OutputRequest { call, .. } => {
                ToHead::ToolResult {
                    call,
                    outcome: Err(refusal),
                }
            }
            FromHead::InputRequest { call, .. } => ToHead::Input {
                call,
                outcome: Err(refusal),
            },
            _ => return,
        };
        let _ = timeout(Duration::from_secs(1), self.channel.send(&answer)).await;
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = cellblock_sandbox::remove_directory(&self.directory);
    }
}

/// Why a session is over whose head died with no cell to blame.
fn died_idle(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("its process ended with exit code {code}"),
        Exit::Signal(signal) => format!("its process was ended by signal {signal}"),
    }
}

impl Ending {
    /// Why a session is over after a cell that ended like this.
    pub(crate) fn reason(&self, exit: Exit) -> String {
        match self {
            Ending::Timeout => "a cell ran out of time".to_owned(),
            Ending::Interrupt => "a cell was interrupted and did not stop".to_owned(),
            Ending::Limit(_) => "a cell went over a limit".to_owned(),
            Ending::Forged(_) => "a cell wrote to our channel".to_owned(),
            Ending::Itself => died_idle(exit),
        }
    }
}
