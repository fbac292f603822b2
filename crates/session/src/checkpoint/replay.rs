//! Running kept cells again, after a crash that found only an older checkpoint.
//!
//! The head that was woken has the state of that checkpoint, and so have the files. The steps since then are done again in order, with the
//! recorded answers to their calls and with the network shut. A step that spoils the replay (it ends the process, takes too long, ends otherwise than it did,
//! or asks for what is not recorded) costs itself and what comes after it: the session goes back to the checkpoint, and the steps before it are
//! done once more.

use crate::actor::cell_frames::AnswerUse;
use crate::actor::cell_result::StateEffect;
use crate::actor::cell_run::{CellRun, Finish};
use crate::actor::exit_status::{Ending, ExitStatus};
use crate::actor::{Actor, AfterCell};
use crate::checkpoint::CellEffect;
use crate::checkpoint::recovery::Recovered;
use crate::checkpoint::steps::{KeptCell, StateChange, StatePoint, Steps};
use crate::files::tracker::Changes;
use crate::journal::{CellRecord, Difference, RecordedAnswers, compare};
use cellblock_protocol::guest::{Reply, ToHead};
use cellblock_protocol::{Cell, Event, Rung, Wall, signal_name};
use cellblock_sandbox::Exit;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A step that takes longer than this, beyond three times what it took at first, is not the same any more.
const MAX_DELAY: Duration = Duration::from_secs(5);
/// The least time that is kept back for doing steps once more.
const MIN_RESERVE: Duration = Duration::from_millis(200);
/// The most lines that tell what differed.
const MAX_DIFFERENCES: usize = 20;

/// The account of a way back after a head has died.
#[derive(Debug, Default)]
pub(crate) struct Restoration {
    pub(crate) not_restored: Vec<String>,
    /// Kept cells whose effects are gone.
    pub(crate) lost: Vec<u64>,
    /// Kept cells that were run again.
    pub(crate) replayed: Vec<u64>,
    pub(crate) differed: Vec<String>,
    pub(crate) time: Option<Duration>,
}

/// Why a step cannot be done again. The head is gone then.
enum StepFailure {
    /// The step did something else than at first.
    Step(String),
    /// The replay was told to stop.
    Interrupted,
    /// There is no session any more.
    Over(String),
}

impl Actor {
    /// The head is gone: wakes a standby and does again what was done since it was made, or says why the session is over.
    ///
    /// `dirty` is what the head changed in the workspace since its last kept cell; `died` is the cell that ran when it went.
    pub(crate) async fn survive(
        &mut self,
        reason: String,
        dirty: Changes,
        died: Option<&mut CellRun>,
    ) -> (AfterCell, Restoration) {
        self.live.head.pending_queries.give_up();
        let (point, kept) = (
            self.live.checkpoints.state_point(),
            self.live.checkpoints.kept.clone(),
        );
        let steps = std::mem::take(&mut self.live.checkpoints.steps);
        let Some(recovered) = self.recover(dirty).await else {
            return (AfterCell::Over(reason), Restoration::default());
        };
        if let Some(cell) = died {
            // The head that was woken has passed on what was there of an incomplete line.
            cell.drain(self);
        }
        self.live.checkpoints.begin_steps();
        let mut restoration = Restoration {
            not_restored: recovered.not_restored,
            ..Restoration::default()
        };
        if self.live.checkpoints.state_point() == point {
            self.network_access.take_use().await;
            return (AfterCell::GoesOn, restoration);
        }
        let (after, why_lost) = match self.replayable(steps) {
            Ok(steps) => self.replay(steps, &mut restoration).await,
            Err(why) => (AfterCell::GoesOn, Some(why)),
        };
        // What the cell that died reached is not the next one's doing.
        self.network_access.take_use().await;
        let is_lost = |cell: &&u64| !self.live.checkpoints.kept.contains(cell);
        restoration.lost = kept.iter().filter(is_lost).copied().collect();
        let why = why_lost.unwrap_or_else(|| "there is no record of them".to_owned());
        if !restoration.lost.is_empty() {
            let cells = name_cells(&restoration.lost);
            restoration
                .not_restored
                .push(format!("the effects of {cells}: {why}"));
        } else if self.live.checkpoints.revision != point.revision {
            restoration
                .not_restored
                .push(format!("variables, tools or a reset between cells: {why}"));
        }
        restoration.note(self.live.checkpoints.take_back_tools());
        (after, restoration)
    }

    /// A cell was kept. What it did is a step, unless the state has a checkpoint already.
    pub(crate) async fn note_cell(&mut self, cell: Cell, record: CellRecord) {
        let network = self.network_access.take_use().await;
        if self.live.checkpoints.is_armed() {
            return self.live.checkpoints.begin_steps();
        }
        if self.options.replay.time().is_none() {
            return;
        }
        let is_open = self.options.isolation.without.contains(&Wall::Network)
            || self.live.base.rung == Rung::None;
        let obstacle = if is_open {
            Some("the network is open to it, so the host cannot tell what it reached".to_owned())
        } else {
            network.then(|| "it reached the network".to_owned())
        };
        self.live
            .checkpoints
            .steps
            .note_cell(cell, record, obstacle);
    }

    /// The steps that can be done again from here, and why there are no more of them.
    fn replayable(&self, steps: Steps) -> Result<Replayable, String> {
        let Some(time) = self.options.replay.time() else {
            return Err("running them again is switched off".to_owned());
        };
        if !steps.begin_at(self.live.checkpoints.state_point()) {
            return Err("no later checkpoint was there to be woken".to_owned());
        }
        let (mut steps, mut why_no_more) = steps.into_parts();
        let mut needed = Duration::ZERO;
        let too_long = steps.iter().position(|step| {
            if let StateChange::Cell(kept) = step {
                needed += kept.time();
            }
            needed > time
        });
        if let Some(at) = too_long {
            let number = steps.get(at).map(StateChange::cell_number);
            why_no_more = Some(format!(
                "{}: running it again does not fit into the {} s of a replay",
                name_step(number.flatten()),
                time.as_secs_f64()
            ));
            steps.truncate(at);
        }
        if steps.is_empty() {
            return Err(why_no_more.unwrap_or_else(|| "there is no record of them".to_owned()));
        }
        Ok(Replayable {
            steps,
            why_no_more,
            time,
        })
    }

    /// Does the steps again. Returns why some of them are lost, if so.
    async fn replay(
        &mut self,
        replayable: Replayable,
        restoration: &mut Restoration,
    ) -> (AfterCell, Option<String>) {
        let (begun, start) = (Instant::now(), self.live.checkpoints.state_point());
        self.network_access.shut();
        let outcome = self
            .replay_from(start, replayable, restoration, begun)
            .await;
        self.network_access.open_again().await;
        restoration.time = Some(begun.elapsed());
        let kept = self.live.checkpoints.kept.iter();
        restoration.replayed = kept.filter(|cell| **cell > start.cell).copied().collect();
        outcome
    }

    async fn replay_from(
        &mut self,
        start: StatePoint,
        replayable: Replayable,
        restoration: &mut Restoration,
        begun: Instant,
    ) -> (AfterCell, Option<String>) {
        let Replayable {
            mut steps,
            mut why_no_more,
            time,
        } = replayable;
        loop {
            // Without a checkpoint, a step that crashes would cost the session.
            self.arm_again().await;
            if !self.live.checkpoints.is_armed() {
                let why = self.live.checkpoints.state().reason.unwrap_or_default();
                let why = format!("the checkpoint could not be kept for a replay: {why}");
                return (AfterCell::GoesOn, Some(why));
            }
            self.live.checkpoints.steps.begin(start);
            restoration.differed.clear();
            let Some((at, failure)) = self.redo(&steps, begun + time, restoration).await else {
                return (AfterCell::GoesOn, why_no_more);
            };
            let step = name_step(steps.get(at).and_then(StateChange::cell_number));
            let is_last = match failure {
                StepFailure::Over(reason) => return (AfterCell::Over(reason), why_no_more),
                StepFailure::Step(reason) => {
                    why_no_more = Some(format!("{step}: run again, {reason}"));
                    steps.truncate(at);
                    false
                }
                StepFailure::Interrupted => {
                    why_no_more = Some("running them again was interrupted".to_owned());
                    true
                }
            };
            restoration.differed.clear();
            let dirty = self.live.files.disk.changes().await;
            match self.recover(dirty).await {
                None => {
                    let reason = "no checkpoint could be woken".to_owned();
                    return (AfterCell::Over(reason), why_no_more);
                }
                Some(Recovered { not_restored, .. }) => {
                    restoration.note(not_restored);
                }
            }
            self.live.checkpoints.begin_steps();
            if is_last || steps.is_empty() || self.live.checkpoints.state_point() != start {
                return (AfterCell::GoesOn, why_no_more);
            }
        }
    }

    /// Does steps once. Returns the first one that spoils it.
    async fn redo(
        &mut self,
        steps: &[StateChange],
        deadline: Instant,
        restoration: &mut Restoration,
    ) -> Option<(usize, StepFailure)> {
        let begun = Instant::now();
        for (at, step) in steps.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let reason = "it did not fit into the time of a replay any more".to_owned();
                return Some((at, self.give_up(reason).await));
            }
            let outcome = match step {
                StateChange::Cell(kept) => {
                    let limit = limit_of(kept, left, begun.elapsed());
                    self.run_again(kept, limit).await
                }
                StateChange::Operation(operation) => self.operate_again(operation, left).await,
            };
            match outcome {
                Ok(differences) => restoration.note_differences(differences),
                Err(failure) => return Some((at, failure)),
            }
        }
        None
    }

    async fn operate_again(
        &mut self,
        operation: &ToHead,
        limit: Duration,
    ) -> Result<Vec<Difference>, StepFailure> {
        let seq = self.live.head.next_question();
        let message = operation.with_seq(seq);
        let reply = timeout(
            limit,
            self.live
                .head
                .exchange(&self.live.base.logs, message.clone(), seq),
        )
        .await;
        match reply.map(|reply| reply.ok().and_then(|reply| Reply::done(reply).ok())) {
            Ok(Some(())) => {
                self.live
                    .note_changes_of(self.live.checkpoints.current())
                    .await;
                self.live.checkpoints.revise();
                self.live.checkpoints.steps.note_operation(message);
                Ok(Vec::new())
            }
            _ => Err(self.give_up("it could not be done".to_owned()).await),
        }
    }

    /// Ends a head that did something else than at first.
    async fn give_up(&mut self, reason: String) -> StepFailure {
        self.live.end_head().await;
        StepFailure::Step(reason)
    }

    async fn run_again(
        &mut self,
        kept: &KeptCell,
        limit: Duration,
    ) -> Result<Vec<Difference>, StepFailure> {
        let number = kept.ended.cell;
        let limited = Cell {
            timeout: Some(limit),
            ..kept.cell.clone()
        };
        let mut run =
            CellRun::again(self, limited, number, RecordedAnswers::new(&kept.ended)).await;
        let finish = run.drive(self).await;
        if self.commands.is_closing() {
            return Err(StepFailure::Over("it was closed".to_owned()));
        }
        let done = match finish {
            Finish::Done(_) if run.is_interrupted() => {
                self.live.end_head().await;
                return Err(StepFailure::Interrupted);
            }
            Finish::Ended(..) if run.is_interrupted() => return Err(StepFailure::Interrupted),
            Finish::Done(done) => done,
            Finish::Ended(death, ending) => {
                return Err(StepFailure::Step(why_it_ended(death.exit, &ending)));
            }
            Finish::Lost => {
                return Err(StepFailure::Over(
                    self.live.placement.process_host.why_lost().await,
                ));
            }
        };
        self.live.head.add_cpu(done.cpu);
        if self.network_access.take_use().await {
            let reason = "it tried to reach the network".to_owned();
            return Err(self.give_up(reason).await);
        }
        let AnswerUse {
            left: answers_left,
            unrecorded,
            mut mismatches,
        } = run.take_answers();
        if let Some(unrecorded) = unrecorded {
            return Err(self.give_up(unrecorded).await);
        }
        let exit = ExitStatus::of_done(&done, false);
        let was = kept.ended.result.status;
        if exit.status != was {
            let why = exit
                .error
                .map(|error| format!(" ({}: {})", error.type_, error.value));
            let reason = format!(
                "it ended with {}{} and not with {was}",
                exit.status,
                why.unwrap_or_default(),
            );
            return Err(self.give_up(reason).await);
        }
        let files = self.live.note_changes_of(number).await.files;
        // The checkpoint stays the one before the first step, also where this step changed nothing: the replay may have to begin again.
        self.live.checkpoints.keep(number, CellEffect::Anything);
        let (result, output) = run.result(self, exit, *done, StateEffect::kept(files));
        drop(output.into_written());
        let mut differences = compare(&kept.ended, &result);
        mismatches.extend(answers_left);
        differences.extend(mismatches.into_iter().map(|what| Difference {
            cell: Some(number),
            what,
            was: String::new(),
            is: String::new(),
        }));
        // The next replay is compared with what this one gave; calls get the first answers for ever.
        let mut record = self.cells.journal.record_of(&result, number);
        record.ended.calls = kept.ended.calls.clone();
        record.ended.inputs = kept.ended.inputs.clone();
        self.live
            .checkpoints
            .steps
            .note_cell(kept.cell.clone(), record, None);
        Ok(differences)
    }

    /// Tells the readers of the session's log (not those of a cell) which cells ran again and what was lost when the session
    /// went back between two cells.
    pub(crate) fn tell_of(&self, restoration: &Restoration) {
        let mut lines = Vec::new();
        if !restoration.replayed.is_empty() {
            let cells = name_cells(&restoration.replayed);
            lines.push(format!(
                "the session went back to a checkpoint, and {cells} ran again\n"
            ));
        }
        let named = |heading: &'static str, texts: &[String]| {
            let line = move |text: &String| format!("{heading}: {text}\n");
            texts.iter().map(line).collect::<Vec<_>>()
        };
        lines.extend(named("differs", &restoration.differed));
        lines.extend(named("not restored", &restoration.not_restored));
        for text in lines {
            self.live.base.logs.send(Event::Log { text });
        }
    }
}

/// Steps that can be done again.
struct Replayable {
    steps: Vec<StateChange>,
    /// Why there are no more of them, if there were more.
    why_no_more: Option<String>,
    time: Duration,
}

impl StateChange {
    fn cell_number(&self) -> Option<u64> {
        match self {
            StateChange::Cell(kept) => Some(kept.ended.cell),
            StateChange::Operation(_) => None,
        }
    }
}

impl Restoration {
    /// Adds what a second way back could not restore, where the first did not say so.
    pub(crate) fn note(&mut self, not_restored: Vec<String>) {
        for text in not_restored {
            if !self.not_restored.contains(&text) {
                self.not_restored.push(text);
            }
        }
    }

    fn note_differences(&mut self, differences: Vec<Difference>) {
        let room = MAX_DIFFERENCES.saturating_sub(self.differed.len());
        let texts = differences.iter().map(Difference::to_string);
        self.differed.extend(texts.take(room));
    }
}

/// How long a cell may take, of the time that is left. If it can be spared, there is time after it to do the steps before it once more, which
/// took `spent`.
fn limit_of(kept: &KeptCell, left: Duration, spent: Duration) -> Duration {
    let needed = kept.time();
    let again = spent * 2 + MIN_RESERVE;
    let spared = left.saturating_sub(again);
    let most = if spared > needed * 2 { spared } else { left };
    most.min(needed * 3 + MAX_DELAY)
}

fn why_it_ended(exit: Exit, ending: &Ending) -> String {
    match (ending, exit) {
        (Ending::Timeout, _) => "it took too long".to_owned(),
        (Ending::Limit(_), _) => "it went over a limit".to_owned(),
        (_, Exit::Signal(signal)) => format!("it crashed with {}", signal_name(signal)),
        (_, Exit::Code(code)) => format!("it ended the process with exit code {code}"),
    }
}

/// `cell 5`, `cells 5, 6 and 7`.
fn name_cells(cells: &[u64]) -> String {
    match cells {
        [] => "no cell".to_owned(),
        [one] => format!("cell {one}"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(u64::to_string).collect();
            format!("cells {} and {last}", first.join(", "))
        }
    }
}

fn name_step(cell: Option<u64>) -> String {
    cell.map_or_else(
        || "what was set between cells".to_owned(),
        |cell| format!("cell {cell}"),
    )
}
