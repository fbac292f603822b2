//! The steps of a session since its newest checkpoint, so that they can be done again after a crash.
//!
//! The list is in memory, beside the journal, which is optional. It begins anew with each checkpoint, so for a session that is armed after every cell
//! it holds one cell at most. It is bounded in bytes and in number; from the first step that it cannot hold, or that must not be done twice, nothing more
//! is recorded, for a later step may need what the missing step did.

use crate::journal::{CellRecord, EndedRecord, weight_of};
use cellblock_protocol::guest::ToHead;
use cellblock_protocol::{Cell, Status};
use std::time::Duration;

/// The most bytes that the records of all steps take together.
const MAX_BYTES: usize = 32 << 20;
/// The most steps.
const MAX_STEPS: usize = 1000;

/// A state that steps begin in or lead to: the last kept cell, and how often something else changed the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatePoint {
    pub(crate) cell: u64,
    pub(crate) revision: u64,
}

/// The steps since a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// The state that the first step begins in. None before the first checkpoint.
    from: Option<StatePoint>,
    list: Vec<StateChange>,
    bytes: usize,
    gap: Option<String>,
}

/// One thing that changed the session's state.
#[derive(Debug)]
pub(crate) enum StateChange {
    Cell(Box<KeptCell>),
    /// Seeds, tools or a reset.
    Operation(ToHead),
}

/// A cell whose effects were kept.
#[derive(Debug)]
pub(crate) struct KeptCell {
    pub(crate) cell: Cell,
    pub(crate) ended: EndedRecord,
}

impl KeptCell {
    /// How long the code itself ran: without the time that it waited for answers.
    pub(crate) fn time(&self) -> Duration {
        let calls = self.ended.calls.iter();
        let own = self.ended.result.usage.wall;
        calls.fold(own, |own, call| own.saturating_sub(call.time))
    }
}

impl Steps {
    /// Begins anew: the state is at a checkpoint.
    pub(crate) fn begin(&mut self, from: StatePoint) {
        *self = Steps {
            from: Some(from),
            ..Steps::default()
        };
    }

    /// Whether these are the steps that lead on from a checkpoint.
    pub(crate) fn begin_at(&self, point: StatePoint) -> bool {
        self.from == Some(point)
    }

    /// A cell was kept. `obstacle` says why it must not be run twice, if that is so.
    pub(crate) fn note_cell(&mut self, cell: Cell, record: CellRecord, obstacle: Option<String>) {
        let CellRecord { ended, gap } = record;
        let interrupted = ended.result.status == Status::Interrupted;
        let interrupted = interrupted.then(|| "it was interrupted in the middle".to_owned());
        if let Some(reason) = obstacle.or(gap).or(interrupted) {
            return self.end(format!("cell {}: {reason}", ended.cell));
        }
        let size = cell.code.len() + weight_of(&ended);
        let number = ended.cell;
        let step = StateChange::Cell(Box::new(KeptCell { cell, ended }));
        self.add(step, size, || format!("cell {number}"));
    }

    /// Something other than a cell changed the state.
    pub(crate) fn note_operation(&mut self, operation: ToHead) {
        let size = match &operation {
            ToHead::Seed { .. } | ToHead::Tools { .. } => {
                operation.to_frame().map_or(usize::MAX, |frame| frame.len())
            }
            _ => 0,
        };
        self.add(StateChange::Operation(operation), size, || {
            "variables or tools that were set between cells".to_owned()
        });
    }

    fn add(&mut self, step: StateChange, size: usize, name: impl FnOnce() -> String) {
        if self.gap.is_some() || self.from.is_none() {
            return;
        }
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > MAX_BYTES || self.list.len() >= MAX_STEPS {
            return self.end(format!(
                "{}: what happened since the checkpoint is too much to be recorded",
                name()
            ));
        }
        self.list.push(step);
    }

    /// Nothing more is recorded.
    fn end(&mut self, reason: String) {
        self.gap.get_or_insert(reason);
    }

    /// The recorded steps, and why there are no more of them, if there were more.
    pub(crate) fn into_parts(self) -> (Vec<StateChange>, Option<String>) {
        (self.list, self.gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::samples;

    const START: StatePoint = StatePoint {
        cell: 1,
        revision: 0,
    };

    fn record(cell: u64, stdout: usize) -> CellRecord {
        let mut ended = samples::ended_of(cell);
        ended.result.stdout = "x".repeat(stdout);
        CellRecord { ended, gap: None }
    }

    fn numbers(steps: Steps) -> (Vec<u64>, Option<String>) {
        let (list, gap) = steps.into_parts();
        let number = |step: &StateChange| match step {
            StateChange::Cell(kept) => kept.ended.cell,
            StateChange::Operation(_) => 0,
        };
        (list.iter().map(number).collect(), gap)
    }

    #[test]
    fn nothing_is_recorded_after_a_cell_that_must_not_be_run_twice() {
        let mut steps = Steps::default();
        steps.begin(START);
        steps.note_cell(Cell::new(""), record(2, 0), None);
        steps.note_cell(
            Cell::new(""),
            record(3, 0),
            Some("it reached the network".to_owned()),
        );
        steps.note_cell(Cell::new(""), record(4, 0), None);
        assert_eq!(
            numbers(steps),
            (vec![2], Some("cell 3: it reached the network".to_owned()))
        );
    }

    #[test]
    fn the_record_is_bounded() {
        let mut steps = Steps::default();
        steps.begin(START);
        for cell in 2..100 {
            steps.note_cell(Cell::new(""), record(cell, 1 << 20), None);
        }
        let (list, gap) = numbers(steps);
        assert!(list.len() < 33, "{list:?}");
        assert!(gap.is_some_and(|gap| gap.contains("too much to be recorded")));
    }

    #[test]
    fn steps_before_the_first_checkpoint_are_not_recorded() {
        let mut steps = Steps::default();
        steps.note_cell(Cell::new(""), record(2, 0), None);
        assert!(!steps.begin_at(START));
        assert_eq!(numbers(steps), (vec![], None));
    }
}
