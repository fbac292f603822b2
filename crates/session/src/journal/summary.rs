//! The meaning of a journal: every cell with what became of its effects, and the steps that led to the state at the end.

use crate::journal::reader::Journal;
use crate::journal::record::{EndedRecord, JournalRecord};
use cellblock_protocol::{Cell, Seed, StateOutcome, Status, ToolSpec};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// One cell of a journal.
#[derive(Debug, Clone, PartialEq)]
pub struct CellSummary {
    /// The number of the cell.
    pub number: u64,
    /// The cell as it was asked for.
    pub cell: Cell,
    /// The time when the cell began, in seconds since 1970.
    pub begun_at: f64,
    /// The record of the cell's end; `None` when the journal ends before the cell did.
    pub ended: Option<EndedRecord>,
    /// Whether the cell's effects are part of the state at the end, and why not.
    pub fate: CellFate,
}

/// Whether a cell's effects are part of the state at the end, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CellFate {
    /// The effects are part of the state at the end.
    Kept,
    /// The effects were taken back by `undo`.
    Undone,
    /// A crash, a time-out or a failed atomic cell: the state is from before it.
    NeverHappened,
    /// The effects were kept, and lost when a later crash found no newer checkpoint.
    Lost,
    /// The cell was stopped in the middle. Its effects until then were kept, but are not recorded.
    Interrupted,
    /// The cell did not end before the journal did.
    Unfinished,
}

impl CellFate {
    /// In words: `kept`, `undone`, …
    pub fn name(self) -> &'static str {
        match self {
            CellFate::Kept => "kept",
            CellFate::Undone => "undone",
            CellFate::NeverHappened => "not kept",
            CellFate::Lost => "lost with a later crash",
            CellFate::Interrupted => "interrupted",
            CellFate::Unfinished => "not finished",
        }
    }
}

impl fmt::Display for CellFate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// Something that has to be done to make the state at the end again.
#[derive(Debug, Clone, PartialEq)]
pub enum JournalStep<'a> {
    /// Run a cell.
    Cell(&'a CellSummary),
    /// Bind variables.
    Seed(&'a Seed),
    /// Offer these tools.
    Tools(&'a [ToolSpec]),
    /// Forget the variables.
    Reset,
    /// Write a file.
    PutFile(&'a str, u64, Option<&'a Arc<Vec<u8>>>),
}

/// A journal, understood.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalSummary<'a> {
    /// Every cell, in order.
    pub cells: Vec<CellSummary>,
    steps: Vec<SummaryStep<'a>>,
}

#[derive(Debug, Clone, PartialEq)]
enum SummaryStep<'a> {
    /// By its place among the cells.
    Cell(usize),
    Other(JournalStep<'a>),
}

impl Journal {
    /// Reads the records and says what they mean.
    pub fn summary(&self) -> JournalSummary<'_> {
        let mut summary = JournalSummary {
            cells: Vec::new(),
            steps: Vec::new(),
        };
        for line in &self.lines {
            summary.add(line.at, &line.record);
        }
        summary
    }
}

impl<'a> JournalSummary<'a> {
    /// The steps that led to the state at the end, in order.
    pub fn steps(&self) -> impl Iterator<Item = JournalStep<'_>> {
        self.steps.iter().map(|item| match item {
            SummaryStep::Cell(index) => JournalStep::Cell(&self.cells[*index]),
            SummaryStep::Other(step) => step.clone(),
        })
    }

    /// The cells whose effects are there at the end.
    pub fn kept(&self) -> impl Iterator<Item = &CellSummary> {
        self.cells.iter().filter(|cell| cell.fate == CellFate::Kept)
    }

    fn add(&mut self, at: f64, record: &'a JournalRecord) {
        match record {
            JournalRecord::Begun {
                cell,
                code,
                timeout,
                atomic,
                env,
                silent,
                keep_value,
                ..
            } => self.cells.push(CellSummary {
                number: *cell,
                cell: Cell {
                    code: code.clone(),
                    timeout: *timeout,
                    atomic: *atomic,
                    env: env.clone(),
                    silent: *silent,
                    keep_value: *keep_value,
                    ..Cell::default()
                },
                begun_at: at,
                ended: None,
                fate: CellFate::Unfinished,
            }),
            JournalRecord::Ended(ended) => self.end(ended),
            JournalRecord::Seeded { variables } => self.step(JournalStep::Seed(variables)),
            JournalRecord::Tools { tools } => self.step(JournalStep::Tools(tools)),
            JournalRecord::Reset => self.step(JournalStep::Reset),
            JournalRecord::PutFile {
                path,
                bytes,
                contents,
            } => self.step(JournalStep::PutFile(path, *bytes, contents.as_ref())),
            JournalRecord::Undone { stands, .. } => self.return_to(*stands, CellFate::Undone),
            JournalRecord::Restored { stands } => self.return_to(*stands, CellFate::Lost),
            JournalRecord::Opened(_)
            | JournalRecord::Forked { .. }
            | JournalRecord::Stopped { .. }
            | JournalRecord::Closed { .. } => {}
        }
    }

    fn step(&mut self, step: JournalStep<'a>) {
        self.steps.push(SummaryStep::Other(step));
    }

    fn end(&mut self, ended: &EndedRecord) {
        let begun = self
            .cells
            .iter()
            .rposition(|cell| cell.number == ended.cell);
        let Some(index) = begun.filter(|index| self.cells[*index].ended.is_none()) else {
            return;
        };
        let fate = match (ended.result.state.outcome, ended.result.status) {
            (StateOutcome::Restored | StateOutcome::Ended, _) => CellFate::NeverHappened,
            (StateOutcome::Kept, Status::Interrupted) => CellFate::Interrupted,
            (StateOutcome::Kept, _) => CellFate::Kept,
        };
        self.cells[index].fate = fate;
        self.cells[index].ended = Some(ended.clone());
        match fate {
            CellFate::Kept => self.steps.push(SummaryStep::Cell(index)),
            // Also what came before it may be gone: a checkpoint can be behind.
            CellFate::NeverHappened => self.return_to(ended.stands, CellFate::Lost),
            _ => {}
        }
    }

    /// The state is again the one after cell `stands`. What was done between that cell and the next belongs to it; files that the
    /// host put there stay.
    fn return_to(&mut self, stands: u64, fate: CellFate) {
        for cell in &mut self.cells {
            if cell.fate == CellFate::Interrupted && cell.number > stands {
                cell.fate = fate;
            }
        }
        let is_later = |cells: &[CellSummary], item: &SummaryStep<'_>| match item {
            SummaryStep::Cell(index) => cells[*index].number > stands,
            SummaryStep::Other(_) => false,
        };
        let later = self
            .steps
            .iter()
            .position(|item| is_later(&self.cells, item));
        let Some(first) = later else {
            return;
        };
        for item in self.steps.split_off(first) {
            match item {
                SummaryStep::Cell(index) => self.cells[index].fate = fate,
                SummaryStep::Other(step @ JournalStep::PutFile(..)) => {
                    self.steps.push(SummaryStep::Other(step))
                }
                SummaryStep::Other(_) => {}
            }
        }
    }
}
