//! The handle of a session: what a caller holds.

mod files;
mod questions;
mod recording;
mod resources;
mod shared;

pub use resources::ResourceUse;
pub(crate) use shared::SessionShared;

use crate::actor::commands::{
    CellCommand, Command, Effect, ExclusiveCommand, ImmediateCommand, Question,
};
use crate::actor::outputs::MAX_PAGE_BYTES;
use crate::container::image_python::ImagePython;
use crate::network::HostApprover;
use crate::processes::{AttachedProcess, Process};
use crate::{Error, EventReader, NotFound, Running};
use cellblock_network::Connection;
use cellblock_protocol::guest::{Reply, ToHead, ToolContent};
use cellblock_protocol::{
    Cell, CellResult, CheckpointList, Computed, Event, ProcessInfo, Rung, Seed, Spawn, Stream,
    ToolSpec, Undone, validate_seed,
};
use cellblock_sandbox::SessionProcesses;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

/// Events that wait for a slow reader: with chunks of 64 KiB this bounds the host's memory.
const MAX_EVENTS: usize = 128;
/// How long an operation other than a cell may take before the head counts as stuck.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// The limits of `compute`.
const COMPUTE_SECONDS: f64 = 2.0;
const COMPUTE_MEMORY: u64 = 256 << 20;

/// A live Python. A handle: clones are the same session, and the session ends when the last one is dropped or on
/// [`close`](Session::close).
///
/// One cell runs at a time: a second one is refused with [`Error::Busy`]. A cell that fails, crashes or runs out of time is a result,
/// no error, and the session goes on:
///
/// ```
/// # cellblock_test_support::wait(async {
/// # let session = cellblock_test_support::open_session(Default::default()).await?;
/// session.run("x = [1, 2, 3]").await?;
/// let crash = session.run("import os; os.kill(os.getpid(), 11)").await?;
/// assert_eq!(crash.signal, Some(11));
/// // Another process took the place of the one that died, with all variables.
/// let result = session.run("sum(x)").await?;
/// assert_eq!(result.repr(), Some("6"));
/// // `undo` takes back what the last cell did.
/// session.run("x.append(4)").await?;
/// session.undo(1).await?;
/// assert_eq!(session.run("len(x)").await?.repr(), Some("3"));
/// session.close().await;
/// # Ok::<(), cellblock_session::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Session {
    pub(crate) shared: Arc<SessionShared>,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    /// Closed when nothing of the session is left.
    pub(crate) presence: watch::Receiver<()>,
}

impl Session {
    /// The id of the session.
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// The path of the workspace on the host. Cells find it at [`workspace_at`](Session::workspace_at).
    pub fn workspace(&self) -> &Path {
        self.shared.base.workspace.path()
    }

    /// The path of the workspace, as cells know it: `/workspace`, unless another was chosen. On a rung without a view it is the path
    /// on the host.
    pub fn workspace_at(&self) -> &Path {
        &self.shared.base.layout.workspace
    }

    /// The Python that it runs on, as [`Python::executable`](crate::Python::executable) named it.
    pub fn python(&self) -> &Path {
        &self.shared.base.python
    }

    /// The Python of the image, for a session in a container: the engine is asked each time. `None` for every other session.
    pub async fn image_python(&self) -> Result<Option<ImagePython>, Error> {
        match &self.shared.image {
            Some(image) => Ok(Some(image.python().await?)),
            None => Ok(None),
        }
    }

    /// How long a cell may take that says nothing about it.
    pub fn time_limit(&self) -> Duration {
        self.shared.wall
    }

    /// How strongly it is walled in.
    pub fn rung(&self) -> Rung {
        self.shared.base.rung
    }

    /// Sets the function that decides about hosts that no rule names, in a session with
    /// [`UnlistedHosts::Ask`](cellblock_protocol::UnlistedHosts). The request of the code waits for the decision, and the clock of its
    /// cell stands still meanwhile. Forks begin without one.
    pub fn set_host_approver(&self, approver: HostApprover) {
        self.shared.host_requests.set_approver(approver);
    }

    /// In a fork: the parts of its parent's state that it does not have, such as processes, pools that had work and connections, each with its
    /// reason. Empty for every other session.
    pub fn not_copied(&self) -> &[String] {
        &self.shared.not_copied
    }

    /// Runs a cell and waits for its result. Tool calls and questions of the code are refused, for this call has no reader of events: use
    /// [`start`](Session::start) to answer them.
    ///
    /// ```
    /// # cellblock_test_support::wait(async {
    /// # let session = cellblock_test_support::open_session(Default::default()).await?;
    /// use cellblock_protocol::{Cell, Status};
    /// use std::time::Duration;
    ///
    /// let result = session.run("print('hello')\n1 / 0").await?;
    /// assert_eq!((result.status, result.stdout.as_str()), (Status::Failure, "hello\n"));
    /// assert_eq!(result.error.map(|error| error.type_).as_deref(), Some("ZeroDivisionError"));
    ///
    /// let limit = Duration::from_millis(500);
    /// let result = session.run(Cell::new("while True: pass").timeout(limit)).await?;
    /// assert_eq!(result.status, Status::Timeout);
    /// assert!(result.usage.wall >= limit);
    /// # Ok::<(), cellblock_session::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn run(&self, cell: impl Into<Cell>) -> Result<CellResult, Error> {
        let cell = cell.into();
        cell.validate()?;
        let (reply, result) = oneshot::channel();
        self.tell(Command::Exclusive(ExclusiveCommand::Run {
            cell,
            number: None,
            events: None,
            reply,
        }));
        result.await.unwrap_or_else(|_| Err(self.ended()))
    }

    /// Starts a cell and returns at once, with its events.
    pub fn start(&self, cell: impl Into<Cell>) -> Result<Running, Error> {
        self.start_numbered(cell, None)
    }

    /// Starts a cell that had a number in an earlier session. The cell keeps it, unless that number or a higher one was used here.
    pub fn start_again(&self, cell: impl Into<Cell>, number: u64) -> Result<Running, Error> {
        self.start_numbered(cell, Some(number))
    }

    fn start_numbered(&self, cell: impl Into<Cell>, number: Option<u64>) -> Result<Running, Error> {
        let cell = cell.into();
        cell.validate()?;
        let (reply, result) = oneshot::channel();
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        self.tell(Command::Exclusive(ExclusiveCommand::Run {
            cell,
            number,
            events: Some(sender),
            reply,
        }));
        Ok(Running {
            session: self.clone(),
            events,
            result: Some(result),
        })
    }

    /// Ends the cell that runs, if one does, as a person's Ctrl-C would; harder when it does not listen.
    pub fn interrupt(&self) {
        self.tell(Command::ToCell(CellCommand::Interrupt));
    }

    /// Evaluates one expression in a throw-away copy of the session.
    pub async fn compute(&self, code: &str, description: &str) -> Result<Computed, Error> {
        let (code, description) = (code.to_owned(), description.to_owned());
        let limit = Duration::from_secs_f64(COMPUTE_SECONDS) + ANSWER_LIMIT;
        let operation = |seq| ToHead::Compute {
            seq,
            code,
            description,
            seconds: COMPUTE_SECONDS,
            memory: COMPUTE_MEMORY,
        };
        self.ask(Effect::ReadOnly, limit, operation, Reply::computed)
            .await
    }

    /// Binds variables.
    pub async fn seed(&self, variables: Seed) -> Result<(), Error> {
        validate_seed(&variables)?;
        self.ask(
            Effect::Changes,
            ANSWER_LIMIT,
            |seq| ToHead::Seed {
                seq,
                variables,
                imports: Vec::new(),
                environment: Vec::new(),
                random: None,
            },
            Reply::done,
        )
        .await
    }

    /// Forgets all variables; files stay.
    pub async fn reset(&self) -> Result<(), Error> {
        self.ask(
            Effect::Changes,
            ANSWER_LIMIT,
            |seq| ToHead::Reset { seq },
            Reply::done,
        )
        .await
    }

    /// Offers these tools to the code, and no others.
    pub async fn set_tools(&self, tools: Vec<ToolSpec>) -> Result<(), Error> {
        tools.iter().try_for_each(ToolSpec::validate)?;
        self.ask(
            Effect::Changes,
            ANSWER_LIMIT,
            |seq| ToHead::Tools { seq, tools },
            Reply::done,
        )
        .await
    }

    /// Takes back the last `count` cells that were kept: variables and files are as before them.
    pub async fn undo(&self, count: usize) -> Result<Undone, Error> {
        let (reply, outcome) = oneshot::channel();
        self.tell(Command::Exclusive(ExclusiveCommand::Undo { count, reply }));
        outcome.await.unwrap_or_else(|_| Err(self.ended()))
    }

    /// Lists the states that the session can go back to, newest first, and says whether the next cell has a checkpoint.
    pub async fn checkpoints(&self) -> Result<CheckpointList, Error> {
        let (reply, answer) = oneshot::channel();
        self.tell(Command::Immediate(ImmediateCommand::Checkpoints { reply }));
        answer.await.map_err(|_| self.ended())
    }

    /// Stops all processes of the session: it takes no processor time until it is resumed, and is not idle meanwhile. Refused while a
    /// cell runs. Until then everything that needs Python is refused with [`Error::Paused`]; files can be worked with.
    pub async fn pause(&self) -> Result<(), Error> {
        self.host_processes().await?;
        let (reply, outcome) = oneshot::channel();
        self.tell(Command::Exclusive(ExclusiveCommand::Pause { reply }));
        outcome.await.unwrap_or_else(|_| Err(self.ended()))
    }

    /// Lets the processes of a paused session go on. A session that is not paused stays as it is.
    pub async fn resume(&self) -> Result<(), Error> {
        let (reply, outcome) = oneshot::channel();
        self.tell(Command::Exclusive(ExclusiveCommand::Resume { reply }));
        outcome.await.unwrap_or_else(|_| Err(self.ended()))
    }

    /// The processes of the session; `None` where they cannot be found.
    pub(crate) async fn ask_for_processes(&self) -> Result<Option<SessionProcesses>, Error> {
        let (reply, found) = oneshot::channel();
        self.tell(Command::Immediate(ImmediateCommand::Processes { reply }));
        found.await.map_err(|_| self.ended())
    }

    /// A second session that begins where this one stands: its own variables, and its own copy of the files at the same path.
    ///
    /// What one does from then on the other never sees. The fork has a name of its own, goes on counting cells where this one is,
    /// and its history begins here: it cannot be taken back beyond the fork.
    pub async fn fork(&self) -> Result<Session, Error> {
        let (reply, forked) = oneshot::channel();
        self.tell(Command::Exclusive(ExclusiveCommand::Fork { reply }));
        forked.await.unwrap_or_else(|_| Err(self.ended()))
    }

    /// Starts a process beside the interpreter, behind the same walls. A cell may run meanwhile.
    ///
    /// The process goes on when its handle is dropped. It ends with the session, and when the session goes back to a checkpoint that is
    /// older than the process.
    pub async fn spawn(&self, spawn: Spawn) -> Result<Process, Error> {
        Ok(self.spawn_attached(spawn).await?.process)
    }

    /// Starts a process and reads its output from the first byte on: nothing is lost between the start and the reader.
    pub async fn spawn_attached(&self, spawn: Spawn) -> Result<AttachedProcess, Error> {
        let start_spawner = async |ends| {
            let (reply, started) = oneshot::channel();
            self.tell(Command::Immediate(ImmediateCommand::StartSpawner {
                ends,
                reply,
            }));
            started.await.unwrap_or_else(|_| Err(self.ended()))
        };
        if self.end().is_some() {
            return Err(self.ended());
        }
        self.shared
            .base
            .processes
            .spawn(&spawn, start_spawner)
            .await
    }

    /// The processes that were spawned and have not ended, the oldest first.
    pub fn processes(&self) -> Vec<ProcessInfo> {
        self.shared.base.processes.running()
    }

    /// A spawned process by its name. One that ended a while ago is not there any more.
    pub fn process(&self, name: &str) -> Result<Process, Error> {
        let found = self.shared.base.processes.find(name);
        found.ok_or_else(|| {
            let process = name.to_owned();
            NotFound::Process { process }.into()
        })
    }

    /// Makes what is in a directory importable, after everything that is so already: from the next cell on, and for code
    /// that waits for the answer to a call, from that answer on. The directory must be below one that the session sees from its
    /// birth ([`Python::prefixes`](crate::Python::prefixes)). It stays, whatever is taken back or restored, and
    /// forks have it too.
    pub fn add_packages(&self, directory: &Path) {
        self.shared.packages.add(directory);
    }

    /// The directories that were added.
    pub fn added_packages(&self) -> Vec<PathBuf> {
        self.shared.packages.all()
    }

    /// Answers a tool call that came as [`Event::ToolCall`].
    pub fn tool_result(&self, call: &str, outcome: Result<Value, String>) {
        self.tell(Command::ToCell(CellCommand::Answer(ToHead::ToolResult {
            call: call.to_owned(),
            outcome,
        })));
    }

    /// Answers a tool call with texts, pictures and documents instead of a value.
    pub fn tool_content(&self, call: &str, content: Vec<ToolContent>) {
        self.tell(Command::ToCell(CellCommand::Answer(ToHead::ToolContent {
            call: call.to_owned(),
            content,
        })));
    }

    /// Answers a question that came as [`Event::InputRequest`].
    pub fn input(&self, call: &str, outcome: Result<String, String>) {
        self.tell(Command::ToCell(CellCommand::Answer(ToHead::Input {
            call: call.to_owned(),
            outcome,
        })));
    }

    /// A page of what an earlier cell wrote, from the byte `offset` on; at most 8 MiB.
    pub async fn read_output(
        &self,
        cell: u64,
        stream: Stream,
        offset: u64,
        length: u64,
    ) -> Result<String, Error> {
        let (reply, text) = oneshot::channel();
        self.tell(Command::Immediate(ImmediateCommand::ReadOutput {
            cell,
            stream,
            offset,
            length: length.min(MAX_PAGE_BYTES),
            reply,
        }));
        text.await.unwrap_or_else(|_| Err(self.ended()))
    }

    /// The session's log: what threads write after their cell has ended, as [`Event::Log`].
    pub fn logs(&self) -> broadcast::Receiver<Event> {
        self.shared.base.logs.subscribe()
    }

    /// Reads the events of the session that have a number above `after`, and those that come: of all cells, whichever handle
    /// started them, and of what happens between cells. 0 is before the first event.
    ///
    /// The session keeps its newest 4096 events, of at most 8 MiB together. Where some of the wanted ones are not kept any more, that
    /// is an [`Error::EventGap`], which names the oldest one that is. A reader that is slow holds nothing up.
    pub fn events(&self, after: u64) -> Result<EventReader, Error> {
        Ok(self.shared.base.logs.ring.read(after)?)
    }

    /// The number of the newest event: `events(newest_event())` reads what happens from now on. 0 when nothing has happened yet.
    pub fn newest_event(&self) -> u64 {
        self.shared.base.logs.ring.newest()
    }

    /// Every connection that code of the session made or tried to make, when it is over. Only what the guard saw itself: unlike a line of
    /// [`logs`](Session::logs), it cannot be made up by code that prints.
    pub fn connections(&self) -> broadcast::Receiver<Arc<Connection>> {
        self.shared.connections.subscribe()
    }

    /// Ends the session and waits until nothing of it is left, also where it is about to end by itself.
    pub async fn close(&self) {
        let (reply, done) = oneshot::channel();
        self.tell(Command::Close { reply });
        let _ = done.await;
        let mut presence = self.presence.clone();
        while presence.changed().await.is_ok() {}
    }

    /// The reason why the session ended, once it has.
    pub fn end(&self) -> Option<&str> {
        self.shared.end.get().map(String::as_str)
    }

    /// The error for a session that is not there any more.
    pub(crate) fn ended(&self) -> Error {
        let reason = self
            .shared
            .end
            .get()
            .cloned()
            .unwrap_or_else(|| "it was closed".to_owned());
        Error::Ended {
            session: self.shared.id.clone(),
            reason,
        }
    }

    fn tell(&self, command: Command) {
        // A session that has ended drops the command, and with it the sender of the reply: the caller sees that.
        let _ = self.commands.send(command);
    }

    async fn ask<T>(
        &self,
        effect: Effect,
        limit: Duration,
        operation: impl FnOnce(u64) -> ToHead + Send + Sync + 'static,
        read: impl FnOnce(Reply) -> Result<T, cellblock_protocol::guest::HeadError>,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.tell(Command::Question(Question {
            operation: Box::new(operation),
            effect,
            limit,
            reply,
        }));
        let answer = answer.await.unwrap_or_else(|_| Err(self.ended()))?;
        Ok(read(answer)?)
    }
}
