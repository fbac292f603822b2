//! The result of a cell that is over, and the session's state after it.

use crate::actor::capture::Capture;
use crate::actor::cell_run::{CellRun, Finish};
use crate::actor::exit_status::{Ending, ExitStatus, LimitHit};
use crate::actor::{Actor, AfterCell};
use crate::checkpoint::CellEffect;
use crate::checkpoint::called_tools;
use crate::checkpoint::repeat::MAX_CODE_TO_REPEAT;
use crate::checkpoint::replay::Restoration;
use cellblock_protocol::guest::{Done, RepeatableCell};
use cellblock_protocol::{
    CellResult, CheckpointState, CheckpointStatus, Event, FileChanges, StateAfterCell,
    StateOutcome, Status, Usage, VariableChanges,
};
use cellblock_sandbox::{ExceededLimit, Exit, HeadExit};

/// The effect of a cell on the session's state.
pub(crate) struct StateEffect {
    outcome: StateOutcome,
    after: AfterCell,
    files: FileChanges,
    restoration: Restoration,
}

impl StateEffect {
    /// The effects of the cell stay, with these changes of files.
    pub(crate) fn kept(files: FileChanges) -> StateEffect {
        StateEffect {
            outcome: StateOutcome::Kept,
            after: AfterCell::GoesOn,
            files,
            restoration: Restoration::default(),
        }
    }

    /// The session is over.
    fn over(after: AfterCell, files: FileChanges) -> StateEffect {
        StateEffect {
            outcome: StateOutcome::Ended,
            after,
            files,
            restoration: Restoration::default(),
        }
    }
}

impl CellRun {
    /// The result, and what becomes of the session.
    pub(crate) async fn conclude(
        mut self,
        actor: &mut Actor,
        finish: Finish,
    ) -> (CellResult, AfterCell) {
        if !matches!(finish, Finish::Done(_)) {
            self.drain(actor);
        }
        self.events.emit_incomplete_line();
        let (mut exit, done, death) = match finish {
            Finish::Done(done) => {
                actor.live.head.add_cpu(done.cpu);
                (
                    ExitStatus::of_done(&done, self.is_interrupted()),
                    *done,
                    None,
                )
            }
            Finish::Ended(death, ending) => {
                // The head's last words are missing; init saw what its whole life cost.
                let cpu = death.cpu.saturating_sub(actor.live.head.spent_cpu);
                let done = Done {
                    cpu,
                    peak_bytes: death.peak_bytes,
                    ..Done::default()
                };
                (
                    ExitStatus::of_exit(death.exit, &ending),
                    done,
                    Some(ending.reason(death.exit)),
                )
            }
            Finish::Lost => {
                let reason = actor.live.placement.process_host.why_lost().await;
                let exit =
                    ExitStatus::of_loss(actor.live.placement.process_host.backend(), &reason);
                (exit, Done::default(), Some(reason))
            }
        };
        if let Some(error) = exit.error.as_mut().filter(|error| error.hint.is_none()) {
            error.hint = actor.network_access.hint(error);
        }
        let effect = self.decide_state(actor, exit.status, &done, death).await;
        // A standby may have passed on what the head held.
        self.events.emit_incomplete_line();
        self.console_log.end();
        if let Some(reason) = actor.live.files.history.lock().take_unpreserved()
            && self.checkpoint.status == CheckpointStatus::Armed
        {
            self.checkpoint = CheckpointState::behind(0, reason);
        }
        let (number, after) = (self.number, effect.after.clone());
        let (result, capture) = self.result(actor, exit, done, effect);
        actor.cells.outputs.keep(number, capture.into_written());
        (result, after)
    }

    /// The result of a cell that is settled, and its output.
    pub(crate) fn result(
        self,
        actor: &Actor,
        exit: ExitStatus,
        done: Done,
        effect: StateEffect,
    ) -> (CellResult, Capture) {
        let StateEffect {
            outcome,
            files,
            restoration,
            ..
        } = effect;
        let Restoration {
            not_restored,
            lost,
            replayed,
            differed,
            time,
        } = restoration;
        // The cell did not cost what making up for it cost.
        let wall = self
            .started
            .elapsed()
            .saturating_sub(time.unwrap_or_default());
        let (stdout, stderr, output, truncated) = self.capture.texts();
        let (stdout_bytes, stderr_bytes) = self.capture.totals();
        let result = CellResult {
            session: actor.shared.id.clone(),
            cell: self.number,
            status: exit.status,
            exit_code: exit.exit_code,
            signal: exit.signal,
            stopped_at: self.stopped_at,
            stdout,
            stderr,
            output,
            truncated,
            value: done.value,
            displays: self.displays.into_list(),
            error: exit.error,
            variables: if outcome == StateOutcome::Kept {
                done.variables
            } else {
                VariableChanges::default()
            },
            files,
            state: StateAfterCell {
                outcome,
                checkpoint: self.checkpoint,
                not_restored,
                lost,
                replayed,
                differed,
                replay_time: time,
            },
            usage: Usage {
                wall,
                cpu: done.cpu,
                peak_bytes: done.peak_bytes,
                stdout_bytes,
                stderr_bytes,
            },
            tool_calls: self.calls.into_list(),
            strategy: actor.options.strategy,
            backend: actor.live.placement.process_host.backend(),
            isolation: actor.live.placement.isolation.clone(),
            isolation_note: actor.live.base.rung.caveat().map(str::to_owned),
        };
        (result, self.capture)
    }

    /// Decides about the state: kept, or as before the cell, or gone with the session.
    async fn decide_state(
        &mut self,
        actor: &mut Actor,
        status: Status,
        done: &Done,
        death: Option<String>,
    ) -> StateEffect {
        let atomic = self.cell.atomic.unwrap_or(actor.options.atomic);
        let reason = match death {
            Some(_) if actor.commands.is_closing() => {
                let after = AfterCell::Over("it was closed".to_owned());
                let files = actor.live.files.disk.changes().await.files;
                return StateEffect::over(after, files);
            }
            Some(reason) => reason,
            None if status != Status::Success && atomic && actor.live.checkpoints.is_armed() => {
                actor.live.end_head().await;
                "an atomic cell failed".to_owned()
            }
            None => {
                let files = if done.pure || done.repeatable {
                    actor.live.note_changes_of_pure(self.number).await.files
                } else {
                    actor.live.note_changes_of(self.number).await.files
                };
                let effect = match files.is_empty() {
                    true => self.effect_of(done),
                    false => CellEffect::Anything,
                };
                actor.live.checkpoints.keep(self.number, effect);
                let called = &mut actor.live.checkpoints.called_tools;
                called.note(self.number, self.calls.reached());
                return StateEffect::kept(files);
            }
        };
        let changes = actor.live.files.disk.changes().await;
        let files = changes.files.clone();
        let (after, mut restoration) = actor.survive(reason, changes, Some(self)).await;
        restoration.note(called_tools::stays(self.calls.reached()));
        match after {
            AfterCell::GoesOn => {
                match self.events.has_reader() {
                    true => self.events.emit(Event::Restored {
                        checkpoint: actor.live.checkpoints.current(),
                    }),
                    false => actor.announce_restored(),
                }
                StateEffect {
                    outcome: StateOutcome::Restored,
                    after,
                    files: FileChanges::default(),
                    restoration,
                }
            }
            AfterCell::Over(_) => StateEffect::over(after, files),
        }
    }

    /// What the cell did to the variables, by the head's word. A cell that called a tool does not only compute, whatever the head says.
    fn effect_of(&self, done: &Done) -> CellEffect {
        let cell = &self.cell;
        let is_plain = !cell.silent
            && cell.script.is_none()
            && cell.env.is_empty()
            && self.calls.reached().is_empty();
        if done.pure {
            CellEffect::Nothing
        } else if done.repeatable && is_plain && cell.code.len() <= MAX_CODE_TO_REPEAT {
            CellEffect::Repeatable(RepeatableCell {
                cell: self.number,
                code: cell.code.clone(),
                keep_value: cell.keep_value,
                count: cell.count,
            })
        } else {
            CellEffect::Anything
        }
    }

    pub(crate) fn reason_of_exit(
        &self,
        actor: &Actor,
        HeadExit {
            exit,
            over,
            peak_bytes,
            ..
        }: HeadExit,
    ) -> Ending {
        let kills = actor.live.placement.memory_kills();
        if let Some(hit) = actor.live.files.disk.hit() {
            return Ending::Limit(hit);
        }
        if over == Some(ExceededLimit::UserObjects) {
            return Ending::Limit(LimitHit::UserObjects);
        }
        if over.is_some() || (exit == Exit::Signal(9) && kills > self.memory_kills) {
            return Ending::Limit(LimitHit::Memory {
                limit: actor.options.limits.memory,
                interpreter_bytes: peak_bytes,
            });
        }
        if self.is_interrupted() {
            Ending::Interrupt
        } else {
            Ending::Itself
        }
    }
}
