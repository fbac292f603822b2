//! One cell, from its first frame to its result.

use crate::Error;
use crate::actor::calls::Calls;
use crate::actor::capture::Capture;
use crate::actor::clock::{Clock, Pulse};
use crate::actor::exit_status::Ending;
use crate::actor::{Actor, Command, Effect, INTERRUPT_GRACE};
use crate::container::console_log::ConsoleLog;
use crate::files::disk_guard::{LOOK_PERIOD, WatchTarget};
use crate::journal::{Answer, Answers};
use cellblock_protocol::guest::{Done, FromHead, ToHead};
use cellblock_protocol::{Cell, CheckpointState, Event, MimeBundle, Strategy, Stream, Wall};
use cellblock_sandbox::{Death, Exit};
use std::io;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How long an interrupt may go unheard before the head is nudged.
const NUDGE_PERIOD: Duration = Duration::from_millis(100);
/// Displays of one cell, in number and together.
const MAX_DISPLAYS: usize = 1000;
const MAX_DISPLAY_BYTES: usize = 64 << 20;
/// Questions of a cell that runs again and asks them in other words: as many as this are told.
const MAX_ODDITIES: usize = 10;
/// One frame brings at most this many events: itself, and what was in both pipes before it.
const MAX_EVENTS_PER_FRAME: usize = 6;

/// The host's side of a running cell.
pub(crate) struct CellRun {
    pub(crate) cell: Cell,
    pub(crate) number: u64,
    pub(crate) events: Option<mpsc::Sender<Event>>,
    pub(crate) started: Instant,
    clock: Clock,
    pulse: Pulse,
    pub(crate) capture: Capture,
    pub(crate) displays: Vec<MimeBundle>,
    display_bytes: usize,
    pub(crate) calls: Calls,
    pub(crate) interrupted: bool,
    pub(crate) memory_kills: u64,
    /// The safety net that the cell started with.
    pub(crate) net: CheckpointState,
    /// What it prints, for the log.
    pub(crate) console_log: ConsoleLog,
    /// What it is answered, if it ran before and runs again.
    recorded: Option<Recorded>,
}

/// The recorded answers of a cell that runs again, and how it asks for others.
struct Recorded {
    answers: Answers,
    /// The first call or question that there is no recorded answer to.
    unrecorded: Option<String>,
    oddities: Vec<String>,
}

impl Recorded {
    fn give<T>(&mut self, answer: Answer<T>) -> Result<T, String> {
        match (answer.oddity, &answer.outcome) {
            (Some(oddity), Err(_)) => _ = self.unrecorded.get_or_insert(oddity),
            (Some(oddity), Ok(_)) if self.oddities.len() < MAX_ODDITIES => {
                self.oddities.push(oddity);
            }
            _ => {}
        }
        answer.outcome
    }
}

/// How the driving of a cell ended.
pub(crate) enum Finish {
    /// The head said so.
    Done(Box<Done>),
    /// The head is dead.
    Ended(Death, Ending),
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
        actor.note_outside_changes().await;
        actor.copy_files().await;
        let is_looked_for = actor.checkpoints.is_armed() && actor.history.lock().held.is_some();
        if !actor.checkpoints.is_disabled && !is_looked_for {
            // No checkpoint was made since the last cell, or the session went back.
            let look = actor.disk.look_for_held_files();
            actor.note_held_files(look).await;
        }
        // What was left running may have changed files of the user's: that was no cell's doing.
        actor.history.lock().take_unpreserved();
        actor.guard_disk(WatchTarget::Cell);
        actor.network_access.begin_cell();
        let limits = &actor.options.limits;
        let walled = !actor.options.isolation.without.contains(&Wall::Output);
        let kept = if walled { limits.output_kept } else { u64::MAX };
        let started = Instant::now();
        CellRun {
            clock: Clock::new(cell.wall(limits.wall), started),
            pulse: Pulse::new(started),
            capture: Capture::new(
                kept,
                limits.output_spilled,
                actor.directory.join(format!("cell-{number}")),
            ),
            memory_kills: actor
                .cgroup
                .as_ref()
                .map_or(0, |cgroup| cgroup.memory_kills()),
            cell,
            number,
            events,
            started,
            displays: Vec::new(),
            display_bytes: 0,
            calls: Calls::default(),
            interrupted: false,
            net: actor.checkpoints.state(),
            console_log: actor.process_host.console_log(),
            recorded: None,
        }
    }

    /// A cell that ran before and gets the same answers as then. Its events go to no reader, and the journal gets no record of it.
    pub(crate) async fn again(
        actor: &mut Actor,
        cell: Cell,
        number: u64,
        answers: Answers,
    ) -> CellRun {
        let mut run = CellRun::new(actor, cell, number, None).await;
        // The file with the output of its first run is still there to be read.
        let limits = &actor.options.limits;
        run.capture = Capture::new(limits.output_kept, 0, actor.directory.join("replayed"));
        run.recorded = Some(Recorded {
            answers,
            unrecorded: None,
            oddities: Vec::new(),
        });
        run
    }

    /// Of a cell that ran again: recorded answers that it did not ask for, the first question without one, and what else was odd.
    pub(crate) fn take_answers(&mut self) -> (Vec<String>, Option<String>, Vec<String>) {
        match self.recorded.take() {
            Some(recorded) => (
                recorded.answers.left(),
                recorded.unrecorded,
                recorded.oddities,
            ),
            None => (Vec::new(), None, Vec::new()),
        }
    }

    /// Sends the cell and attends to everything until it is over.
    pub(crate) async fn drive(&mut self, actor: &mut Actor) -> Finish {
        let request = ToHead::Run {
            cell: self.number,
            code: self.cell.code.clone(),
            script: self.cell.script.clone(),
            watched: actor.options.strategy == Strategy::Thread,
        };
        // Taken from the end.
        let mut outgoing = vec![request];
        outgoing.extend(actor.shared.packages.message());
        let mut next_look = self.started + LOOK_PERIOD;
        let mut last_word: Option<Instant> = None;
        let mut next_nudge = self.started;
        loop {
            let told = !outgoing.is_empty();
            while let Some(message) = outgoing.pop() {
                match self.send(actor, &message).await {
                    Some(Ok(())) if self.recorded.is_some() => {}
                    Some(Ok(())) => actor.journal.sent(&message, &self.cell),
                    Some(Err(_)) => break,
                    None => return self.end(actor, Ending::Timeout).await,
                }
            }
            let lost = self.pulse.feel(Instant::now());
            self.clock.forgive(lost);
            last_word = last_word.map(|time| time + lost);
            let room = self
                .events
                .as_ref()
                .is_none_or(|events| events.capacity() >= MAX_EVENTS_PER_FRAME);
            // A reader that does not read stops the cell, and so its clock.
            if !room {
                self.clock.stop();
            } else if !self.calls.has_pending() {
                self.clock.go_on();
            }
            if told
                && room
                && let Some(frame) = actor.channel.receive_soon().transpose()
            {
                if let Some(finish) = self.hear(actor, frame, &mut outgoing).await {
                    return finish;
                }
                continue;
            }
            let deadline = self.clock.deadline();
            tokio::select! {
                biased;
                event = actor.init.next_event() => {
                    match event {
                        Ok(event) => actor.note_init_event(event),
                        Err(_) => return Finish::Lost,
                    }
                    if let Some(death) = actor.ended.take() {
                        return Finish::Ended(death, self.why_it_died(actor, death));
                    }
                }
                command = actor.commands.recv() => {
                    match self.obey(actor, command) {
                        Obeyed::Fine => {}
                        Obeyed::Send(message) => {
                            outgoing.push(message);
                            outgoing.extend(actor.shared.packages.message());
                        }
                        Obeyed::Interrupt => {
                            self.interrupted = true;
                            last_word.get_or_insert_with(|| Instant::now() + INTERRUPT_GRACE);
                            next_nudge = Instant::now() + NUDGE_PERIOD;
                            actor.interrupt_head(self.number).await;
                        }
                        Obeyed::Stop => return self.end(actor, Ending::Interrupt).await,
                    }
                }
                () = gone(self.events.as_ref()) => {
                    self.events = None;
                    outgoing.extend(self.calls.refuse_waiting());
                }
                frame = actor.channel.receive(), if room => {
                    if let Some(finish) = self.hear(actor, frame, &mut outgoing).await {
                        return finish;
                    }
                }
                read = actor.pipes.read(), if room => {
                    if let Ok((stream, bytes)) = read {
                        let text = self.capture.take(stream, bytes);
                        self.emit_text(stream, text);
                    }
                }
                () = room_again(self.events.as_ref()), if !room => {}
                () = sleep_until(deadline.unwrap_or(next_look)), if deadline.is_some() => {
                    // If the host did not run, the cell has that time left, and may have answered meanwhile.
                    self.clock.forgive(self.pulse.feel(Instant::now()));
                    if self.clock.deadline() == deadline {
                        return self.end(actor, Ending::Timeout).await;
                    }
                }
                () = sleep_until(last_word.unwrap_or(next_look)), if last_word.is_some() => {
                    return self.end(actor, Ending::Interrupt).await;
                }
                () = sleep_until(next_nudge), if last_word.is_some() => {
                    next_nudge = Instant::now() + NUDGE_PERIOD;
                    actor.nudge_head().await;
                }
                () = sleep_until(next_look) => {
                    next_look = Instant::now() + LOOK_PERIOD;
                    actor.disk.nudge();
                }
                report = actor.disk.report() => {
                    next_look = Instant::now() + LOOK_PERIOD;
                    if let Some(hit) = actor.disk.hit() {
                        return self.end(actor, Ending::Limit(hit)).await;
                    }
                    actor.pending_queries.expire();
                    self.clock.charge(report.processor, Instant::now());
                    if self.clock.is_over() {
                        return self.end(actor, Ending::Timeout).await;
                    }
                }
            }
        }
    }

    /// Sends something to the head. A head that does not read would block us here for ever; its time runs out all the same, and then there
    /// is no outcome.
    async fn send(&mut self, actor: &Actor, message: &ToHead) -> Option<io::Result<()>> {
        /// For a cell whose clock stands still.
        const SEND_TIMEOUT: Duration = Duration::from_secs(60);
        let patience = Instant::now() + SEND_TIMEOUT;
        let sending = actor.channel.send(message);
        tokio::pin!(sending);
        loop {
            let limit = self.clock.deadline().unwrap_or(patience);
            tokio::select! {
                biased;
                sent = &mut sending => return Some(sent),
                () = sleep_until(limit.min(self.pulse.next())) => {
                    self.clock.forgive(self.pulse.feel(Instant::now()));
                    if Instant::now() >= self.clock.deadline().unwrap_or(patience) {
                        return None;
                    }
                }
            }
        }
    }

    /// The head says something, or can say no more. Returns how the cell ended, if it did.
    async fn hear(
        &mut self,
        actor: &mut Actor,
        frame: io::Result<FromHead>,
        outgoing: &mut Vec<ToHead>,
    ) -> Option<Finish> {
        // The guest sends a display when the pipes are empty: what is in them now came after it.
        if !matches!(frame, Ok(FromHead::Display { .. })) {
            self.drain(actor);
        }
        let ending = match frame {
            Ok(FromHead::Done(done)) if done.cell == self.number => {
                match actor.disk.look_at_end().await.over(actor.disk_limit()) {
                    Some(hit) => Ending::Limit(hit),
                    None => return Some(Finish::Done(done)),
                }
            }
            Ok(frame) => {
                if self.recorded.is_none() {
                    actor.journal.heard(&frame);
                }
                outgoing.extend(self.attend(actor, frame));
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

    /// What a handle asks while the cell runs.
    fn obey(&mut self, actor: &mut Actor, command: Option<Command>) -> Obeyed {
        let session = actor.shared.id.clone();
        let busy = || Error::Busy { session };
        match command {
            Some(Command::Interrupt) => return Obeyed::Interrupt,
            Some(Command::Answer(answer)) if self.calls.is_answered_by(&answer) => {
                return Obeyed::Send(answer);
            }
            Some(Command::Answer(_)) => {}
            Some(
                command @ (Command::Run { .. }
                | Command::Ask { .. }
                | Command::Undo { .. }
                | Command::Fork { .. }),
            ) if self.recorded.is_some() => actor.postponed.push_back(command),
            Some(Command::Run { reply, .. }) => drop(reply.send(Err(busy()))),
            Some(Command::Ask {
                operation,
                effect,
                limit,
                reply,
            }) if self.can_answer(actor, effect) => {
                actor.questions += 1;
                actor.pending_queries.expect(actor.questions, reply, limit);
                return Obeyed::Send(operation(actor.questions));
            }
            Some(Command::Ask { reply, .. }) => drop(reply.send(Err(busy()))),
            Some(Command::ReadOutput {
                cell,
                stream,
                offset,
                length,
                reply,
            }) => {
                drop(reply.send(actor.outputs.read(cell, stream, offset, length)));
            }
            Some(Command::Undo { reply, .. }) => drop(reply.send(Err(busy()))),
            Some(Command::Fork { reply }) => drop(reply.send(Err(busy()))),
            Some(Command::Checkpoints { reply }) => {
                drop(reply.send(actor.checkpoints.list()));
            }
            Some(Command::Close { reply }) => {
                actor.closing = Some(reply);
                return Obeyed::Stop;
            }
            None => return Obeyed::Stop,
        }
        Obeyed::Fine
    }

    /// Whether the head answers such a question in the middle of a cell.
    fn can_answer(&self, actor: &Actor, effect: Effect) -> bool {
        match effect {
            Effect::ReadOnlyDuringCall => {
                actor.options.strategy == Strategy::Thread || self.calls.has_pending()
            }
            Effect::ReadOnly => actor.options.strategy == Strategy::Thread,
            Effect::Changes => false,
        }
    }

    /// What the head says while the cell runs; an answer, when the host has one at once.
    fn attend(&mut self, actor: &mut Actor, frame: FromHead) -> Option<ToHead> {
        match frame {
            FromHead::Display { mime } => {
                self.display_bytes += mime.bytes();
                if self.displays.len() < MAX_DISPLAYS && self.display_bytes <= MAX_DISPLAY_BYTES {
                    self.emit(Event::Display { mime: mime.clone() });
                    self.displays.push(mime);
                }
                None
            }
            FromHead::ToolCall {
                call,
                name,
                arguments,
            } => {
                if let Some(recorded) = &mut self.recorded {
                    let answer = recorded.answers.call(&name, &arguments);
                    let outcome = recorded.give(answer);
                    return Some(ToHead::ToolResult { call, outcome });
                }
                if self.events.is_none() {
                    let outcome = Err(format!(
                        "nobody answers tool calls here, so `{name}` cannot be called"
                    ));
                    self.calls.refuse(&call, &name, &arguments);
                    return Some(ToHead::ToolResult { call, outcome });
                }
                if let Err(reason) = self.calls.call(&call, &name, &arguments) {
                    return Some(ToHead::ToolResult {
                        call,
                        outcome: Err(reason),
                    });
                }
                self.clock.stop();
                self.emit(Event::ToolCall {
                    call,
                    name,
                    arguments,
                });
                None
            }
            FromHead::InputRequest { call, prompt } => {
                if let Some(recorded) = &mut self.recorded {
                    let answer = recorded.answers.input(&prompt);
                    let outcome = recorded.give(answer);
                    return Some(ToHead::Input { call, outcome });
                }
                if self.events.is_none() {
                    let outcome = Err("input() cannot be answered: no person can type here; pass the value in as a variable".to_owned());
                    return Some(ToHead::Input { call, outcome });
                }
                if let Err(reason) = self.calls.question(&call, &prompt) {
                    return Some(ToHead::Input {
                        call,
                        outcome: Err(reason),
                    });
                }
                self.clock.stop();
                self.emit(Event::InputRequest { call, prompt });
                None
            }
            FromHead::Log { text } => {
                actor.shared.log(text);
                None
            }
            FromHead::OutputRequest {
                call,
                cell,
                stream,
                offset,
                length,
            } => {
                let page = actor.outputs.read(cell, stream, offset, length);
                let outcome = page
                    .map(serde_json::Value::String)
                    .map_err(|error| error.to_string());
                Some(ToHead::ToolResult { call, outcome })
            }
            FromHead::Reply(reply) => {
                actor.pending_queries.answer(reply);
                None
            }
            // Left over from earlier, or a lie: a wrong cell number.
            FromHead::Ready { .. } | FromHead::Done(_) => None,
        }
    }

    async fn end(&mut self, actor: &mut Actor, ending: Ending) -> Finish {
        if ending == Ending::Itself {
            return match actor.wait_for_death().await {
                Some(death) => Finish::Ended(death, self.why_it_died(actor, death)),
                None => Finish::Lost,
            };
        }
        match actor.end_head().await {
            // Whatever it died of in the end, we had decided: a time-out has signal 9 and no exit code.
            Some(death) => Finish::Ended(
                Death {
                    exit: Exit::Signal(9),
                    ..death
                },
                ending,
            ),
            None => Finish::Lost,
        }
    }

    pub(crate) fn drain(&mut self, actor: &mut Actor) {
        let mut texts = Vec::new();
        let capture = &mut self.capture;
        actor
            .pipes
            .drain(|stream, bytes| texts.push((stream, capture.take(stream, bytes))));
        for (stream, text) in texts {
            self.emit_text(stream, text);
        }
    }

    fn emit_text(&mut self, stream: Stream, text: String) {
        if !text.is_empty() {
            self.console_log.take(stream, &text);
            self.emit(if stream == Stream::Stderr {
                Event::Stderr { text }
            } else {
                Event::Stdout { text }
            });
        }
    }

    pub(crate) fn emit(&self, event: Event) {
        if let Some(events) = &self.events {
            // There was room when we looked; a reader that has gone is not our business.
            let _ = events.try_send(event);
        }
    }
}

/// What to do after a command.
enum Obeyed {
    Fine,
    Send(ToHead),
    Interrupt,
    Stop,
}

async fn room_again(events: Option<&mpsc::Sender<Event>>) {
    if let Some(events) = events {
        // Gone, or free: either way there is nothing to wait for.
        let _ = events.reserve_many(MAX_EVENTS_PER_FRAME).await;
    }
}

/// Waits until the reader of the events is gone; for ever if there was none.
async fn gone(events: Option<&mpsc::Sender<Event>>) {
    match events {
        Some(events) => events.closed().await,
        None => std::future::pending().await,
    }
}
