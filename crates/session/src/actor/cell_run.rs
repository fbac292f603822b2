//! One cell, from its first frame to its end.
//!
//! [`CellRun::drive`] is a loop of three steps: send what is to be sent, wait for the next [`Signal`], act on it. Whatever a cell
//! must listen to besides is a variant of `Signal`, a line in `next_signal`, and an arm in `act_on`.

use crate::actor::Actor;
use crate::actor::calls::Calls;
use crate::actor::capture::Capture;
use crate::actor::cell_events::CellEvents;
use crate::actor::cell_frames::{AnswerUse, Displays, Recorded};
use crate::actor::clock::{Clock, SuspendDetector};
use crate::actor::commands::Command;
use crate::actor::dispatch::ForCell;
use crate::actor::exit_status::Ending;
use crate::container::running::ConsoleLog;
use crate::files::disk_guard::{GuardReport, LOOK_PERIOD, WatchTarget};
use crate::journal::RecordedAnswers;
use crate::wire::init_link::InitEvent;
use cellblock_protocol::guest::{Done, FromHead, ToHead};
use cellblock_protocol::{Cell, CheckpointState, Event, Strategy, Stream, Wall};
use cellblock_sandbox::{Exit, HeadExit};
use std::io;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How long a cell may take to listen to an interrupt.
const INTERRUPT_GRACE: Duration = Duration::from_secs(2);
/// How long an interrupt may go unheard before the head is nudged.
const INTERRUPT_SIGNAL_PERIOD: Duration = Duration::from_millis(100);

/// The host's side of a running cell.
pub(crate) struct CellRun {
    pub(crate) cell: Cell,
    pub(crate) number: u64,
    pub(crate) events: CellEvents,
    pub(crate) started: Instant,
    pub(crate) clock: Clock,
    suspend_detector: SuspendDetector,
    /// The time of the next look at the disk limit.
    next_look: Instant,
    /// Set by an interrupt.
    pub(crate) interrupt: Option<Interrupt>,
    /// Frames for the head, taken from the end.
    outgoing: Vec<ToHead>,
    pub(crate) capture: Capture,
    pub(crate) displays: Displays,
    pub(crate) calls: Calls,
    pub(crate) memory_kills: u64,
    /// Where the cell was when its time was over.
    pub(crate) stopped_at: Option<String>,
    /// The checkpoint under the cell when it started.
    pub(crate) checkpoint: CheckpointState,
    /// The log of what a container prints.
    pub(crate) console_log: ConsoleLog,
    /// The recorded answers, if the cell ran before and runs again.
    pub(crate) recorded: Option<Recorded>,
}

/// An interrupt that the cell was sent and has not obeyed yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interrupt {
    /// The time when the head is ended if the cell still runs.
    deadline: Instant,
    /// The time when the head is nudged again.
    next_nudge: Instant,
}

/// Something that a running cell reacts to.
enum Signal {
    Init(io::Result<InitEvent>),
    /// `None` when the last handle was dropped.
    Command(Option<Command>),
    /// The reader of the events is gone.
    ReaderGone,
    Frame(io::Result<FromHead>),
    Output {
        stream: Stream,
        text: String,
    },
    /// There is room for events again, or nothing came of what was waited for.
    Nothing,
    /// The clock reached this deadline.
    TimeOver {
        deadline: Instant,
    },
    InterruptIgnored,
    /// An incomplete line has waited for its rest.
    LineDue,
    NudgeDue,
    DiskLookDue,
    DiskReport(GuardReport),
}

/// How the driving of a cell ended.
pub(crate) enum Finish {
    /// The head said so.
    Done(Box<Done>),
    /// The head is dead.
    Ended(HeadExit, Ending),
    /// Even init is dead.
    Lost,
}

impl CellRun {
    pub(crate) async fn new(
        actor: &mut Actor,
        cell: Cell,
        number: u64,
        events: Option<mpsc::Sender<Event>>,
    ) -> CellRun {
        actor.live.note_outside_changes().await;
        actor.live.copy_files().await;
        let is_looked_for =
            actor.live.checkpoints.is_armed() && actor.live.files.history.lock().held.is_some();
        if !actor.live.checkpoints.is_disabled() && !is_looked_for {
            // No checkpoint was made since the last cell, or the session went back.
            let look = actor.live.files.disk.look_for_held_files();
            actor.live.note_held_files(look).await;
        }
        // What was left running may have changed files of the user's: that was no cell's doing.
        actor.live.files.history.lock().take_unpreserved();
        actor.guard_disk(WatchTarget::Cell);
        actor.network_access.begin_cell();
        let limits = &actor.options.limits;
        let walled = !actor.options.isolation.without.contains(&Wall::Output);
        let kept = if walled { limits.output_kept } else { u64::MAX };
        let started = Instant::now();
        let spill = actor.live.directory.path().join(format!("cell-{number}"));
        CellRun {
            clock: Clock::new(cell.wall(limits.wall), started),
            suspend_detector: SuspendDetector::new(started),
            next_look: started + LOOK_PERIOD,
            interrupt: None,
            outgoing: Vec::new(),
            capture: Capture::new(kept, limits.output_spilled, spill),
            memory_kills: actor.live.placement.memory_kills(),
            stopped_at: None,
            cell,
            number,
            events: CellEvents::new(events, &actor.live.base.logs.ring, number),
            started,
            displays: Displays::default(),
            calls: Calls::default(),
            checkpoint: actor.live.checkpoints.state(),
            console_log: actor.live.placement.process_host.console_log(),
            recorded: None,
        }
    }

    /// A cell that ran before and gets the same answers as then. Its events go to no reader, and the journal gets no record of it.
    pub(crate) async fn again(
        actor: &mut Actor,
        cell: Cell,
        number: u64,
        answers: RecordedAnswers,
    ) -> CellRun {
        let mut run = CellRun::new(actor, cell, number, None).await;
        // The file with the output of its first run is still there to be read.
        let limits = &actor.options.limits;
        let spill = actor.live.directory.path().join("replayed");
        run.capture = Capture::new(limits.output_kept, 0, spill);
        run.recorded = Some(Recorded::new(answers));
        run.events.be_quiet();
        run
    }

    /// Whether the cell ran before and runs again after a crash.
    pub(crate) fn is_replay(&self) -> bool {
        self.recorded.is_some()
    }

    /// Whether the cell was interrupted.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.is_some()
    }

    /// How a cell that ran again used its recorded answers.
    pub(crate) fn take_answers(&mut self) -> AnswerUse {
        self.recorded
            .take()
            .map(Recorded::into_use)
            .unwrap_or_default()
    }

    /// Sends the cell and attends to everything until it is over.
    pub(crate) async fn drive(&mut self, actor: &mut Actor) -> Finish {
        self.outgoing.push(ToHead::Run {
            cell: self.number,
            code: self.cell.code.clone(),
            script: self.cell.script.clone(),
            env: self.cell.env.clone(),
            silent: self.cell.silent,
            keep_value: self.cell.keep_value,
            count: self.cell.count,
            watched: actor.options.strategy == Strategy::Thread,
        });
        self.outgoing.extend(actor.shared.packages.message());
        loop {
            let has_sent = !self.outgoing.is_empty();
            if let Err(TimeOver) = self.send_outgoing(actor).await {
                return self.end(actor, Ending::Timeout).await;
            }
            self.keep_time(actor);
            let at_once = match has_sent && self.events.has_room() {
                // Many answers come within a moment.
                true => actor.live.head.channel.receive_soon().transpose(),
                false => None,
            };
            let signal = match at_once {
                Some(frame) => Signal::Frame(frame),
                None => self.next_signal(actor).await,
            };
            if let Some(finish) = self.act_on(actor, signal).await {
                return finish;
            }
        }
    }

    /// Sends the frames that wait for it. A head that cannot be sent to is found out by what is received.
    async fn send_outgoing(&mut self, actor: &mut Actor) -> Result<(), TimeOver> {
        while let Some(message) = self.outgoing.pop() {
            match self.send(actor, &message).await? {
                Ok(()) if self.is_replay() => {}
                Ok(()) => actor.cells.journal.sent(&message, &self.cell),
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Sends one frame. A head that does not read would block the host here for ever; its time runs out all the same.
    async fn send(&mut self, actor: &Actor, message: &ToHead) -> Result<io::Result<()>, TimeOver> {
        /// For a cell whose clock stands still.
        const SEND_TIMEOUT: Duration = Duration::from_secs(60);
        let patience = Instant::now() + SEND_TIMEOUT;
        let sending = actor.live.head.channel.send(message);
        tokio::pin!(sending);
        loop {
            let limit = self.clock.deadline().unwrap_or(patience);
            tokio::select! {
                biased;
                sent = &mut sending => return Ok(sent),
                () = sleep_until(limit.min(self.suspend_detector.next())) => {
                    self.clock.exclude(self.suspend_detector.time_suspended(Instant::now()));
                    if Instant::now() >= self.clock.deadline().unwrap_or(patience) {
                        return Err(TimeOver);
                    }
                }
            }
        }
    }

    /// Keeps the clock right: time in which the host did not run is free, and the clock stands still while the reader of the events
    /// does not read or the code waits for an answer, also about a host.
    fn keep_time(&mut self, actor: &Actor) {
        let lost = self.suspend_detector.time_suspended(Instant::now());
        self.clock.exclude(lost);
        if let Some(interrupt) = &mut self.interrupt {
            interrupt.deadline += lost;
        }
        if !self.events.has_room() || actor.network_access.is_asking() {
            self.clock.stop();
        } else if !self.calls.has_pending() {
            self.clock.go_on();
        }
    }

    /// Waits for whatever comes first. Init is listened to before all others.
    async fn next_signal(&mut self, actor: &mut Actor) -> Signal {
        let has_room = self.events.has_room();
        let deadline = self.clock.deadline();
        let interrupt = self.interrupt;
        let line_due = self.events.line_due().filter(|_| has_room);
        // A branch that is switched off still needs a time.
        let later = self.next_look;
        tokio::select! {
            biased;
            event = actor.live.init.next_event() => Signal::Init(event),
            command = actor.commands.receive() => Signal::Command(command),
            () = self.events.wait_until_unread() => Signal::ReaderGone,
            frame = actor.live.head.channel.receive(), if has_room => Signal::Frame(frame),
            read = actor.live.head.pipes.read(), if has_room => match read {
                Ok((stream, bytes)) => {
                    let text = self.capture.take(stream, bytes);
                    Signal::Output { stream, text }
                }
                Err(_) => Signal::Nothing,
            },
            () = self.events.wait_for_room(), if !has_room => Signal::Nothing,
            () = actor.network_access.asking_changed() => Signal::Nothing,
            () = sleep_until(deadline.unwrap_or(later)), if deadline.is_some() => {
                Signal::TimeOver { deadline: deadline.unwrap_or(later) }
            }
            () = sleep_until(interrupt.map_or(later, |interrupt| interrupt.deadline)), if interrupt.is_some() => {
                Signal::InterruptIgnored
            }
            () = sleep_until(interrupt.map_or(later, |interrupt| interrupt.next_nudge)), if interrupt.is_some() => {
                Signal::NudgeDue
            }
            () = sleep_until(line_due.unwrap_or(later)), if line_due.is_some() => Signal::LineDue,
            () = sleep_until(self.next_look) => Signal::DiskLookDue,
            report = actor.live.files.disk.report() => Signal::DiskReport(report),
        }
    }

    /// Acts on a signal. Returns how the cell ended, if it did.
    async fn act_on(&mut self, actor: &mut Actor, signal: Signal) -> Option<Finish> {
        match signal {
            Signal::Init(Ok(event)) => {
                actor.live.note_init_event(event);
                let death = actor.live.head.ended.take()?;
                Some(Finish::Ended(death, self.reason_of_exit(actor, death)))
            }
            Signal::Init(Err(_)) => Some(Finish::Lost),
            Signal::Command(command) => self.obey(actor, command).await,
            Signal::ReaderGone => {
                self.events.forget_reader();
                self.outgoing.extend(self.calls.refuse_waiting());
                None
            }
            Signal::Frame(frame) => self.handle_frame(actor, frame).await,
            Signal::Output { stream, text } => {
                self.emit_text(stream, text);
                None
            }
            Signal::Nothing => None,
            Signal::TimeOver { deadline } => {
                // If the host did not run, the cell has that time left, and may have answered meanwhile.
                self.clock
                    .exclude(self.suspend_detector.time_suspended(Instant::now()));
                match self.clock.deadline() == Some(deadline) {
                    true => {
                        self.note_place(actor).await;
                        Some(self.end(actor, Ending::Timeout).await)
                    }
                    false => None,
                }
            }
            Signal::InterruptIgnored => Some(self.end(actor, Ending::Interrupt).await),
            Signal::LineDue => {
                self.events.emit_incomplete_line();
                None
            }
            Signal::NudgeDue => {
                if let Some(interrupt) = &mut self.interrupt {
                    interrupt.next_nudge = Instant::now() + INTERRUPT_SIGNAL_PERIOD;
                }
                actor.live.nudge_head().await;
                None
            }
            Signal::DiskLookDue => {
                self.next_look = Instant::now() + LOOK_PERIOD;
                actor.live.files.disk.nudge();
                None
            }
            Signal::DiskReport(report) => self.take_disk_report(actor, report).await,
        }
    }

    /// Obeys a command that the dispatch lets through.
    async fn obey(&mut self, actor: &mut Actor, command: Option<Command>) -> Option<Finish> {
        match actor.dispatch_during_cell(self, command).await {
            ForCell::Nothing => {}
            ForCell::Send(message) => {
                self.outgoing.push(message);
                self.outgoing.extend(actor.shared.packages.message());
            }
            ForCell::Interrupt => {
                let now = Instant::now();
                // A second interrupt gives no more time.
                let deadline = self
                    .interrupt
                    .map_or(now + INTERRUPT_GRACE, |first| first.deadline);
                self.interrupt = Some(Interrupt {
                    deadline,
                    next_nudge: now + INTERRUPT_SIGNAL_PERIOD,
                });
                actor.live.interrupt_head(self.number).await;
            }
            ForCell::Stop => return Some(self.end(actor, Ending::Interrupt).await),
        }
        None
    }

    /// Takes what the disk guard saw. It also looks at the processor, and comes often enough for what has a deadline of its own.
    async fn take_disk_report(&mut self, actor: &mut Actor, report: GuardReport) -> Option<Finish> {
        self.next_look = Instant::now() + LOOK_PERIOD;
        if let Some(hit) = actor.live.files.disk.hit() {
            return Some(self.end(actor, Ending::Limit(hit)).await);
        }
        actor.live.head.pending_queries.expire();
        self.clock.charge(report.processor, Instant::now());
        if self.clock.is_over() {
            self.note_place(actor).await;
            return Some(self.end(actor, Ending::Timeout).await);
        }
        None
    }

    /// The head says something, or can say no more. Returns how the cell ended, if it did.
    async fn handle_frame(
        &mut self,
        actor: &mut Actor,
        frame: io::Result<FromHead>,
    ) -> Option<Finish> {
        // The guest sends a display when the pipes are empty: what is in them now came after it.
        if !matches!(
            frame,
            Ok(FromHead::Display(_) | FromHead::ClearOutput { .. } | FromHead::Comm(_))
        ) {
            self.drain(actor);
        }
        let ending = match frame {
            Ok(FromHead::Done(done)) if done.cell == self.number => {
                let added = actor.live.files.disk.look_at_end().await;
                match added.over(actor.disk_limit()) {
                    Some(hit) => Ending::Limit(hit),
                    None => return Some(Finish::Done(done)),
                }
            }
            Ok(frame) => {
                if !self.is_replay() {
                    actor.cells.journal.note_frame(&frame);
                }
                let answer = self.take_frame(actor, frame);
                self.outgoing.extend(answer);
                return None;
            }
            // The process died, and init will say how; or the code closed our channel, and init ends it.
            Err(error)
                if error.kind() == io::ErrorKind::UnexpectedEof
                    || error.raw_os_error().is_some() =>
            {
                Ending::Itself
            }
            Err(error) => Ending::Forged(error.to_string()),
        };
        Some(self.end(actor, ending).await)
    }

    /// Ends the head, for a reason of the host's or because it is about to end by itself.
    async fn end(&mut self, actor: &mut Actor, ending: Ending) -> Finish {
        if ending == Ending::Itself {
            return match actor.live.wait_for_head_exit().await {
                Some(death) => Finish::Ended(death, self.reason_of_exit(actor, death)),
                None => Finish::Lost,
            };
        }
        match actor.live.end_head().await {
            // Whatever it died of in the end, we had decided: a time-out has signal 9 and no exit code.
            Some(death) => Finish::Ended(
                HeadExit {
                    exit: Exit::Signal(9),
                    ..death
                },
                ending,
            ),
            None => Finish::Lost,
        }
    }

    /// Takes what is in the pipes now.
    pub(crate) fn drain(&mut self, actor: &mut Actor) {
        let mut texts = Vec::new();
        let capture = &mut self.capture;
        actor
            .live
            .head
            .pipes
            .drain(|stream, bytes| texts.push((stream, capture.take(stream, bytes))));
        for (stream, text) in texts {
            self.emit_text(stream, text);
        }
    }

    /// Takes bytes of a stream as output of the cell.
    pub(crate) fn add_output(&mut self, stream: Stream, bytes: &[u8]) {
        if !bytes.is_empty() {
            let text = self.capture.take(stream, bytes);
            self.emit_text(stream, text);
        }
    }

    fn emit_text(&mut self, stream: Stream, text: String) {
        if !text.is_empty() {
            self.console_log.take(stream, &text);
            self.events.emit_text(stream, text);
        }
    }
}

/// The cell's time is over.
struct TimeOver;
