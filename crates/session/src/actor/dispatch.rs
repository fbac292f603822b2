//! The dispatch of commands: it decides, by the kind of a command, whether it is carried out, refused, postponed or passed on to the
//! running cell. What a paused session does with each kind is in `pause.rs`.

use crate::Error;
use crate::actor::cell_run::CellRun;
use crate::actor::commands::{
    CellCommand, Command, Effect, ExclusiveCommand, ImmediateCommand, Question,
};
use crate::actor::{Actor, AfterCell};
use crate::journal::JournalRecord;
use cellblock_protocol::guest::ToHead;
use cellblock_protocol::{Cell, CellResult, Event, StateOutcome, Strategy, Undone};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// The effect of a command on the running cell.
pub(crate) enum ForCell {
    Nothing,
    Send(ToHead),
    Interrupt,
    Stop,
}

impl Actor {
    /// Carries out a command while no cell runs.
    pub(crate) async fn dispatch(&mut self, command: Command) -> AfterCell {
        match command {
            Command::Exclusive(command) => self.carry_out(command).await,
            Command::Question(question) => self.answer_question(question).await,
            // Too late: nothing is running.
            Command::ToCell(_) => AfterCell::GoesOn,
            Command::Immediate(command) => {
                if matches!(command, ImmediateCommand::Checkpoints { .. }) {
                    self.live.arm().await;
                }
                self.answer_at_once(command).await;
                AfterCell::GoesOn
            }
            Command::Close { reply } => {
                self.commands.close_for(reply);
                AfterCell::Over("it was closed".to_owned())
            }
        }
    }

    /// Carries out a command while a cell runs, or refuses it as busy. `None` stands for the last handle, which was dropped.
    pub(crate) async fn dispatch_during_cell(
        &mut self,
        run: &mut CellRun,
        command: Option<Command>,
    ) -> ForCell {
        match command {
            Some(Command::ToCell(CellCommand::Interrupt)) => ForCell::Interrupt,
            Some(Command::ToCell(CellCommand::Answer(answer))) => {
                match run.calls.is_answered_by(&answer) {
                    true => ForCell::Send(answer),
                    false => ForCell::Nothing,
                }
            }
            Some(Command::Immediate(command)) => {
                self.answer_at_once(command).await;
                ForCell::Nothing
            }
            Some(command @ (Command::Exclusive(_) | Command::Question(_))) if run.is_replay() => {
                self.commands.postpone(command);
                ForCell::Nothing
            }
            Some(Command::Question(question)) if self.is_answerable(run, question.effect) => {
                let number = self.live.head.next_question();
                let Question {
                    operation,
                    limit,
                    reply,
                    ..
                } = question;
                self.live.head.pending_queries.expect(number, reply, limit);
                ForCell::Send(operation(number))
            }
            Some(command @ (Command::Exclusive(_) | Command::Question(_))) => {
                let session = self.shared.id.clone();
                command.refuse(Error::Busy { session });
                ForCell::Nothing
            }
            Some(Command::Close { reply }) => {
                self.commands.close_for(reply);
                ForCell::Stop
            }
            None => ForCell::Stop,
        }
    }

    /// Whether the head answers a question in the middle of a cell.
    fn is_answerable(&self, run: &CellRun, effect: Effect) -> bool {
        match effect {
            Effect::ReadOnlyDuringCall => {
                self.options.strategy == Strategy::Thread || run.calls.has_pending()
            }
            Effect::ReadOnly => self.options.strategy == Strategy::Thread,
            Effect::Changes => false,
        }
    }

    /// Answers without the head. It must not take long: the running cell waits meanwhile.
    pub(crate) async fn answer_at_once(&mut self, command: ImmediateCommand) {
        match command {
            ImmediateCommand::ReadOutput {
                cell,
                stream,
                offset,
                length,
                reply,
            } => {
                let _ = reply.send(self.cells.outputs.read(cell, stream, offset, length));
            }
            ImmediateCommand::Checkpoints { reply } => {
                let _ = reply.send(self.live.checkpoints.list());
            }
            ImmediateCommand::StartSpawner { ends, reply } => {
                let _ = reply.send(self.start_spawner(ends).await);
            }
            ImmediateCommand::Processes { reply } => {
                let _ = reply.send(self.live.files.disk.processes().find());
            }
        }
    }

    async fn carry_out(&mut self, command: ExclusiveCommand) -> AfterCell {
        match command {
            ExclusiveCommand::Run {
                cell,
                number,
                events,
                reply,
            } => {
                let number = number.or(cell.count);
                self.cells.last_number = number.unwrap_or(0).max(self.cells.last_number + 1);
                let number = self.cells.last_number;
                let ring = Arc::clone(&self.live.base.logs.ring);
                let begun = Event::Begun {
                    cell: number,
                    code: cell.code.clone(),
                };
                ring.push(Some(number), begun);
                self.arm_before_cell().await;
                self.live
                    .checkpoints
                    .note_processes(self.live.base.processes.mark());
                let (result, after) = self.run(cell.clone(), number, events).await;
                let record = self
                    .cells
                    .journal
                    .ended(&result, self.live.checkpoints.current());
                if let Err(reason) = self.cells.journal.commit_cell(&record.ended).await {
                    return self.end_unrecorded(reply, reason);
                }
                let over = Event::Result {
                    result: Box::new(result.clone()),
                };
                ring.push(Some(number), over);
                self.live.checkpoints.announced = result.state.checkpoint.clone();
                let _ = reply.send(Ok(result));
                self.cells.journal.cell(&record.ended);
                if record.ended.result.state.outcome == StateOutcome::Kept {
                    self.note_cell(cell, record).await;
                }
                after
            }
            ExclusiveCommand::Undo { count, reply } => {
                let outcome = self.undo(count).await;
                if let Ok(Undone { cell, .. }) = outcome {
                    let (count, stands) = (count as u64, cell);
                    let recorder = &self.cells.journal.recorder;
                    let record = JournalRecord::Undone { count, stands };
                    if let Err(reason) = recorder.commit(record).await {
                        return self.end_unrecorded(reply, reason);
                    }
                }
                let after = match &outcome {
                    Err(Error::Ended { reason, .. }) => AfterCell::Over(reason.clone()),
                    _ => AfterCell::GoesOn,
                };
                let _ = reply.send(outcome);
                after
            }
            ExclusiveCommand::Pause { reply } => self.pause(reply).await,
            // A session that is not paused needs nothing.
            ExclusiveCommand::Resume { reply } => {
                let _ = reply.send(Ok(()));
                AfterCell::GoesOn
            }
            ExclusiveCommand::Fork { reply } => {
                let (outcome, after) = self.fork().await;
                let _ = reply.send(outcome);
                after
            }
        }
    }

    /// Ends the session whose last change could not be recorded: its memory is not what its journal says.
    fn end_unrecorded<T>(
        &self,
        reply: oneshot::Sender<Result<T, Error>>,
        reason: String,
    ) -> AfterCell {
        let session = self.shared.id.clone();
        let _ = reply.send(Err(Error::Ended {
            session,
            reason: reason.clone(),
        }));
        AfterCell::Over(reason)
    }

    async fn answer_question(&mut self, question: Question) -> AfterCell {
        let Question {
            operation,
            effect,
            limit,
            reply,
        } = question;
        if effect == Effect::Changes && self.live.checkpoints.is_of_several_cells() {
            self.live.arm().await;
        }
        let (answer, after) = self.ask(operation, limit).await;
        if effect == Effect::Changes {
            // An object that is forgotten may still write to its file.
            self.live
                .note_changes_of(self.live.checkpoints.current())
                .await;
            self.live.checkpoints.revise();
        }
        let _ = reply.send(answer);
        after
    }

    /// Runs one cell to its end.
    pub(crate) async fn run(
        &mut self,
        cell: Cell,
        number: u64,
        events: Option<mpsc::Sender<Event>>,
    ) -> (CellResult, AfterCell) {
        let mut run = CellRun::new(self, cell, number, events).await;
        let finish = run.drive(self).await;
        run.conclude(self, finish).await
    }
}
