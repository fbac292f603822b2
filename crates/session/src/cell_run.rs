//! One cell, from its first frame to its result.

use crate::Error;
use crate::actor::{Actor, Command, Effect, Fate, INTERRUPT_GRACE};
use crate::capture::Capture;
use crate::verdict::{Ending, LimitHit, Verdict};
use cellblock_protocol::guest::{Done, FromHead, Reply, ToHead};
use cellblock_protocol::{
    Backend, Cell, CellResult, CheckpointState, Event, FileChanges, MimeBundle, State,
    StateOutcome, Status, Stream, ToolCall, ToolOutcome, Usage, VariableChanges, Wall,
};
use cellblock_sandbox::{Death, Exit, FromInit, ToInit};
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

/// How often the disk limit is looked at while a cell runs.
const DISK_PERIOD: Duration = Duration::from_millis(200);
/// Inodes are a resource as well.
const MOST_FILES: usize = 100_000;
/// Displays of one cell, in number and together.
const MOST_DISPLAYS: usize = 1000;
const MOST_DISPLAY_BYTES: usize = 64 << 20;
/// One frame brings at most this many events: itself, and what was in both pipes before it.
const ROOM: usize = 6;
/// Tool calls of one cell that a result lists, in number and with their arguments together.
const MOST_CALLS: usize = 10_000;
const MOST_CALL_BYTES: usize = 16 << 20;

/// The host's side of a running cell.
pub(crate) struct CellRun {
    cell: Cell,
    number: u64,
    events: Option<mpsc::Sender<Event>>,
    started: Instant,
    clock: Clock,
    capture: Capture,
    displays: Vec<MimeBundle>,
    display_bytes: usize,
    calls: Vec<ToolCall>,
    call_bytes: usize,
    /// Calls and questions that wait for an answer: where in `calls`, and since when.
    waiting: HashMap<String, (Option<usize>, Instant)>,
    /// Questions about the state, asked while the code waits: until when, and who wants to know.
    glances: HashMap<u64, (Instant, oneshot::Sender<Result<Reply, Error>>)>,
    interrupted: bool,
    memory_kills: u64,
    /// The safety net that the cell started with.
    net: CheckpointState,
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

/// The cell's own time: it stands still while the code waits for an answer from outside.
struct Clock {
    left: Duration,
    running_since: Option<Instant>,
}

impl Clock {
    fn deadline(&self) -> Option<Instant> {
        self.running_since.map(|since| since + self.left)
    }

    fn stop(&mut self) {
        if let Some(since) = self.running_since.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
    }

    fn go_on(&mut self) {
        self.running_since.get_or_insert_with(Instant::now);
    }
}

impl CellRun {
    pub(crate) async fn new(
        actor: &mut Actor,
        cell: Cell,
        number: u64,
        events: Option<mpsc::Sender<Event>>,
    ) -> CellRun {
        actor.note_outside_changes();
        actor.copy_files().await;
        let limits = &actor.options.limits;
        let walled = !actor.options.isolation.without.contains(&Wall::Output);
        let kept = if walled { limits.output_kept } else { u64::MAX };
        let started = Instant::now();
        CellRun {
            clock: Clock {
                left: cell.wall(limits.wall),
                running_since: Some(started),
            },
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
            calls: Vec::new(),
            call_bytes: 0,
            waiting: HashMap::new(),
            glances: HashMap::new(),
            interrupted: false,
            net: actor.checkpoints.state(),
        }
    }

    /// Sends the cell and attends to everything until it is over.
    pub(crate) async fn drive(&mut self, actor: &mut Actor) -> Finish {
        let request = ToHead::Run {
            cell: self.number,
            code: self.cell.code.clone(),
            display_limit: None,
        };
        let mut outgoing = vec![request];
        let mut disk_check = self.started + DISK_PERIOD;
        let mut last_word: Option<Instant> = None;
        loop {
            // A head that does not read would block us here for ever; its time runs out all the same.
            while let Some(message) = outgoing.pop() {
                let limit = self
                    .clock
                    .deadline()
                    .unwrap_or_else(|| Instant::now() + Duration::from_secs(60));
                match tokio::time::timeout_at(limit, actor.channel.send(&message)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => break,
                    Err(_) => return self.end(actor, Ending::Timeout).await,
                }
            }
            let room = self
                .events
                .as_ref()
                .is_none_or(|events| events.capacity() >= ROOM);
            // A reader that does not read stops the cell, and so its clock.
            if !room {
                self.clock.stop();
            } else if self.waiting.is_empty() {
                self.clock.go_on();
            }
            let deadline = self.clock.deadline();
            tokio::select! {
                biased;
                message = actor.init.receive() => {
                    match message.map(|packet| FromInit::from_bytes(&packet.bytes)) {
                        Ok(Ok(FromInit::Ended(death))) => return Finish::Ended(death, self.why_it_died(actor, death)),
                        Ok(Ok(FromInit::Lost { pid })) => actor.checkpoints.lose(pid),
                        Ok(Ok(_)) => {}
                        _ => return Finish::Lost,
                    }
                }
                command = actor.commands.recv() => {
                    match self.obey(actor, command) {
                        Obeyed::Fine => {}
                        Obeyed::Send(message) => outgoing.push(message),
                        Obeyed::Interrupt => {
                            self.interrupted = true;
                            last_word.get_or_insert_with(|| Instant::now() + INTERRUPT_GRACE);
                            let _ = actor.init.send(&ToInit::Signal(2).to_bytes(), &[]).await;
                        }
                        Obeyed::Stop => return self.end(actor, Ending::Interrupt).await,
                    }
                }
                () = gone(self.events.as_ref()) => {
                    self.events = None;
                    outgoing.extend(self.refuse_waiting());
                }
                frame = actor.channel.receive(), if room => {
                    // The guest sends a display when the pipes are empty: what is in them now came after it.
                    if !matches!(frame, Ok(FromHead::Display { .. })) {
                        self.drain(actor);
                    }
                    match frame {
                        Ok(FromHead::Done(done)) if done.cell == self.number => {
                            return match self.disk_hit(actor) {
                                Some(hit) => self.end(actor, Ending::Limit(hit)).await,
                                None => Finish::Done(done),
                            };
                        }
                        Ok(frame) => outgoing.extend(self.attend(actor, frame)),
                        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof || error.raw_os_error().is_some() => {
                            // The process died, and init will say how; or the code closed our channel, and init ends it.
                            return self.end(actor, Ending::Itself).await;
                        }
                        Err(error) => return self.end(actor, Ending::Forged(error.to_string())).await,
                    }
                }
                read = actor.pipes.read(), if room => {
                    if let Ok((stream, bytes)) = read {
                        let text = self.capture.take(stream, bytes);
                        self.emit_text(stream, text);
                    }
                }
                () = room_again(self.events.as_ref()), if !room => {}
                () = sleep_until(deadline.unwrap_or(disk_check)), if deadline.is_some() => {
                    return self.end(actor, Ending::Timeout).await;
                }
                () = sleep_until(last_word.unwrap_or(disk_check)), if last_word.is_some() => {
                    return self.end(actor, Ending::Interrupt).await;
                }
                () = sleep_until(disk_check) => {
                    disk_check = Instant::now() + DISK_PERIOD;
                    self.refuse_glances(actor, Instant::now());
                    if let Some(hit) = self.disk_hit(actor) {
                        return self.end(actor, Ending::Limit(hit)).await;
                    }
                }
            }
        }
    }

    /// The result, and what becomes of the session.
    pub(crate) async fn conclude(
        mut self,
        actor: &mut Actor,
        finish: Finish,
    ) -> (CellResult, Fate) {
        self.drain(actor);
        self.refuse_glances(actor, Instant::now() + Duration::from_secs(3600));
        for call in self
            .waiting
            .drain()
            .filter_map(|(_, (index, since))| Some((index?, since)))
        {
            let (index, since) = call;
            self.calls[index].ms = since.elapsed().as_secs_f64() * 1e3;
        }
        let (verdict, done, death) = match finish {
            Finish::Done(done) => {
                actor.spent_ms += done.cpu_ms;
                (Verdict::of_done(&done, self.interrupted), *done, None)
            }
            Finish::Ended(death, ending) => {
                // The head's last words are missing; init saw what its whole life cost.
                let cpu_ms = (death.cpu_ms - actor.spent_ms).max(0.0);
                let done = Done {
                    cpu_ms,
                    peak_bytes: death.peak_bytes,
                    ..Done::default()
                };
                (
                    Verdict::of_exit(death.exit, &ending),
                    done,
                    Some(ending.reason(death.exit)),
                )
            }
            Finish::Lost => {
                let verdict = Verdict::of_exit(Exit::Signal(9), &Ending::Itself);
                (
                    verdict,
                    Done::default(),
                    Some("its init process died".to_owned()),
                )
            }
        };
        let Settled {
            outcome,
            fate,
            files,
            not_restored,
        } = self.settle(actor, verdict.status, done.pure, death).await;
        let (stdout, stderr, output, truncated) = self.capture.texts();
        let (stdout_bytes, stderr_bytes) = self.capture.totals();
        let result = CellResult {
            session: actor.shared.id.clone(),
            cell: self.number,
            status: verdict.status,
            exit_code: verdict.exit_code,
            signal: verdict.signal,
            stdout,
            stderr,
            output,
            truncated,
            value: done.value,
            displays: self.displays,
            error: verdict.error,
            variables: if outcome == StateOutcome::Kept {
                done.variables
            } else {
                VariableChanges::default()
            },
            files,
            state: State {
                outcome,
                checkpoint: self.net,
                not_restored,
            },
            usage: Usage {
                wall_ms: self.started.elapsed().as_secs_f64() * 1e3,
                cpu_ms: done.cpu_ms,
                peak_bytes: done.peak_bytes,
                stdout_bytes,
                stderr_bytes,
            },
            tool_calls: self.calls,
            strategy: actor.options.strategy,
            backend: Backend::Local,
            isolation: actor.isolation.clone(),
        };
        actor.outputs.keep(self.number, self.capture.into_written());
        (result, fate)
    }

    /// What becomes of the state: kept, or as before the cell, or gone with the session.
    async fn settle(
        &self,
        actor: &mut Actor,
        status: Status,
        pure: bool,
        death: Option<String>,
    ) -> Settled {
        let atomic = self.cell.atomic.unwrap_or(actor.options.atomic);
        let reason = match death {
            Some(_) if actor.closing.is_some() || actor.commands.is_closed() => {
                let fate = Fate::Over("it was closed".to_owned());
                let files = actor.tracker.changes().files;
                return Settled {
                    outcome: StateOutcome::Ended,
                    fate,
                    files,
                    not_restored: Vec::new(),
                };
            }
            Some(reason) => reason,
            None if status != Status::Success && atomic && actor.checkpoints.is_armed() => {
                actor.end_head().await;
                "an atomic cell failed".to_owned()
            }
            None => {
                let files = actor.note_changes_of(self.number).files;
                actor
                    .checkpoints
                    .keep(self.number, pure && files.is_empty());
                return Settled {
                    outcome: StateOutcome::Kept,
                    fate: Fate::Lives,
                    files,
                    not_restored: Vec::new(),
                };
            }
        };
        let changes = actor.tracker.changes();
        let (fate, not_restored) = actor.survive(reason, changes.paths).await;
        match fate {
            Fate::Lives => {
                actor.tracker.settle();
                match self.events {
                    Some(_) => self.emit(Event::Restored {
                        checkpoint: actor.checkpoints.current(),
                    }),
                    None => actor.announce_restored(),
                }
                Settled {
                    outcome: StateOutcome::Restored,
                    fate,
                    files: FileChanges::default(),
                    not_restored,
                }
            }
            Fate::Over(_) => Settled {
                outcome: StateOutcome::Ended,
                fate,
                files: changes.files,
                not_restored,
            },
        }
    }

    /// What a handle asks while the cell runs.
    fn obey(&mut self, actor: &mut Actor, command: Option<Command>) -> Obeyed {
        let session = actor.shared.id.clone();
        let busy = || Error::Busy { session };
        match command {
            Some(Command::Interrupt) => return Obeyed::Interrupt,
            Some(Command::Answer(answer)) => return self.answered(answer),
            Some(Command::Run { reply, .. }) => drop(reply.send(Err(busy()))),
            Some(Command::Ask {
                operation,
                effect: Effect::Glances,
                limit,
                reply,
            }) if !self.waiting.is_empty() => {
                actor.questions += 1;
                let question = actor.questions;
                self.glances
                    .insert(question, (Instant::now() + limit, reply));
                return Obeyed::Send(operation(question));
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
            Some(Command::Checkpoints { reply }) => {
                drop(reply.send((actor.checkpoints.state(), actor.checkpoints.entries())));
            }
            Some(Command::Close { reply }) => {
                actor.closing = Some(reply);
                return Obeyed::Stop;
            }
            None => return Obeyed::Stop,
        }
        Obeyed::Fine
    }

    fn answered(&mut self, answer: ToHead) -> Obeyed {
        let (call, outcome) = match &answer {
            ToHead::ToolResult { call, outcome } => (
                call,
                if outcome.is_ok() {
                    ToolOutcome::Ok
                } else {
                    ToolOutcome::Error
                },
            ),
            ToHead::ToolContent { call, .. } | ToHead::Input { call, .. } => {
                (call, ToolOutcome::Ok)
            }
            _ => return Obeyed::Fine,
        };
        // An answer to nothing, or a second one.
        let Some((index, since)) = self.waiting.remove(call) else {
            return Obeyed::Fine;
        };
        if let Some(call) = index.and_then(|index| self.calls.get_mut(index)) {
            call.ms = since.elapsed().as_secs_f64() * 1e3;
            call.outcome = outcome;
        }
        if self.waiting.is_empty() {
            self.clock.go_on();
        }
        Obeyed::Send(answer)
    }

    /// What the head says while the cell runs; an answer, when the host has one at once.
    fn attend(&mut self, actor: &Actor, frame: FromHead) -> Option<ToHead> {
        match frame {
            FromHead::Display { mime } => {
                let size: usize = mime
                    .iter()
                    .map(|(_, value)| value.as_str().map_or(1024, str::len))
                    .sum();
                self.display_bytes += size;
                if self.displays.len() < MOST_DISPLAYS && self.display_bytes <= MOST_DISPLAY_BYTES {
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
                if self.events.is_none() {
                    let outcome = Err(format!(
                        "nobody answers tool calls here, so `{name}` cannot be called"
                    ));
                    self.note_call(&call, &name, &arguments, ToolOutcome::Error);
                    return Some(ToHead::ToolResult { call, outcome });
                }
                let index = self.note_call(&call, &name, &arguments, ToolOutcome::Unanswered);
                self.waiting.insert(call.clone(), (index, Instant::now()));
                self.clock.stop();
                self.emit(Event::ToolCall {
                    call,
                    name,
                    arguments,
                });
                None
            }
            FromHead::InputRequest { call, prompt } => {
                if self.events.is_none() {
                    let outcome = Err("input() cannot be answered: nobody is there to type; pass the value in as a variable".to_owned());
                    return Some(ToHead::Input { call, outcome });
                }
                self.waiting.insert(call.clone(), (None, Instant::now()));
                self.clock.stop();
                self.emit(Event::InputRequest { call, prompt });
                None
            }
            FromHead::Log { text } => {
                let _ = actor.shared.logs.send(Event::Log { text });
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
                if let Some((_, asker)) = self.glances.remove(&reply.seq) {
                    let _ = asker.send(Ok(reply));
                }
                None
            }
            // Left over from earlier, or a lie: a wrong cell number.
            FromHead::Ready { .. } | FromHead::Done(_) => None,
        }
    }

    /// Answers for those who were asked and have gone.
    fn refuse_waiting(&mut self) -> Vec<ToHead> {
        let reason = || "nobody listens any more".to_owned();
        let waiting = std::mem::take(&mut self.waiting);
        let answers = waiting.into_iter().map(|(call, (index, since))| {
            let Some(noted) = index.and_then(|index| self.calls.get_mut(index)) else {
                return ToHead::Input {
                    call,
                    outcome: Err(reason()),
                };
            };
            noted.ms = since.elapsed().as_secs_f64() * 1e3;
            noted.outcome = ToolOutcome::Error;
            ToHead::ToolResult {
                call,
                outcome: Err(reason()),
            }
        });
        answers.collect()
    }

    /// Code that computes again does not answer questions.
    fn refuse_glances(&mut self, actor: &Actor, now: Instant) {
        let late: Vec<u64> = self
            .glances
            .iter()
            .filter(|(_, (limit, _))| *limit <= now)
            .map(|(question, _)| *question)
            .collect();
        for (_, asker) in late.iter().filter_map(|late| self.glances.remove(late)) {
            let session = actor.shared.id.clone();
            let _ = asker.send(Err(Error::Busy { session }));
        }
    }

    fn note_call(
        &mut self,
        call: &str,
        name: &str,
        arguments: &serde_json::Map<String, serde_json::Value>,
        outcome: ToolOutcome,
    ) -> Option<usize> {
        self.call_bytes += name.len()
            + arguments
                .iter()
                .map(|(key, value)| key.len() + weight(value))
                .sum::<usize>();
        if self.calls.len() >= MOST_CALLS || self.call_bytes > MOST_CALL_BYTES {
            return None;
        }
        self.calls.push(ToolCall {
            call: call.to_owned(),
            name: name.to_owned(),
            arguments: arguments.clone(),
            ms: 0.0,
            outcome,
        });
        Some(self.calls.len() - 1)
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

    fn why_it_died(
        &self,
        actor: &Actor,
        Death {
            exit,
            out_of_memory,
            ..
        }: Death,
    ) -> Ending {
        let kills = actor
            .cgroup
            .as_ref()
            .map_or(0, |cgroup| cgroup.memory_kills());
        if out_of_memory || (exit == Exit::Signal(9) && kills > self.memory_kills) {
            return Ending::Limit(LimitHit::Memory {
                limit: actor.options.limits.memory,
            });
        }
        if self.interrupted {
            Ending::Interrupt
        } else {
            Ending::Itself
        }
    }

    fn disk_hit(&self, actor: &mut Actor) -> Option<LimitHit> {
        if actor.options.isolation.without.contains(&Wall::Disk) {
            return None;
        }
        let limit = actor.options.limits.disk;
        let (bytes, files) = actor.tracker.added_lately();
        if bytes > limit {
            Some(LimitHit::Disk { limit })
        } else if files > MOST_FILES {
            Some(LimitHit::Files { limit: MOST_FILES })
        } else {
            None
        }
    }

    fn drain(&mut self, actor: &mut Actor) {
        let mut texts = Vec::new();
        let capture = &mut self.capture;
        actor
            .pipes
            .drain(|stream, bytes| texts.push((stream, capture.take(stream, bytes))));
        for (stream, text) in texts {
            self.emit_text(stream, text);
        }
    }

    fn emit_text(&self, stream: Stream, text: String) {
        if !text.is_empty() {
            self.emit(if stream == Stream::Stderr {
                Event::Stderr { text }
            } else {
                Event::Stdout { text }
            });
        }
    }

    fn emit(&self, event: Event) {
        if let Some(events) = &self.events {
            // There was room when we looked; a reader that has gone is not our business.
            let _ = events.try_send(event);
        }
    }
}

/// About what a value takes in memory.
fn weight(value: &serde_json::Value) -> usize {
    const NODE: usize = 72;
    NODE + match value {
        serde_json::Value::String(text) => text.len(),
        serde_json::Value::Array(items) => items.iter().map(weight).sum(),
        serde_json::Value::Object(map) => map
            .iter()
            .map(|(key, value)| key.len() + weight(value))
            .sum(),
        _ => 0,
    }
}

/// What became of the state.
struct Settled {
    outcome: StateOutcome,
    fate: Fate,
    files: FileChanges,
    not_restored: Vec<String>,
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
        let _ = events.reserve_many(ROOM).await;
    }
}

/// Waits until nobody listens any more; for ever when nobody ever did.
async fn gone(events: Option<&mpsc::Sender<Event>>) {
    match events {
        Some(events) => events.closed().await,
        None => std::future::pending().await,
    }
}
