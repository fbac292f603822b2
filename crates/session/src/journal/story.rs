//! What a journal tells: every cell with what became of it, and the steps that led to the state at the end.

use super::reader::Journal;
use super::record::{Ended, Record};
use cellblock_protocol::{Cell, Seed, StateOutcome, Status, ToolSpec};
use serde::Serialize;
use std::sync::Arc;

/// One cell of a journal.
#[derive(Debug, Clone, PartialEq)]
pub struct CellStory {
    /// Its number.
    pub number: u64,
    /// What was to be run.
    pub cell: Cell,
    /// When it began, in seconds since 1970.
    pub begun_at: f64,
    /// How it ended; `None` when the journal ends before it did.
    pub ended: Option<Ended>,
    /// What became of its effects.
    pub fate: Fate,
}

/// What became of a cell's effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// They are part of the state at the end.
    Kept,
    /// They were taken back by `undo`.
    Undone,
    /// A crash, a time-out or a failed atomic cell: the state is from before it.
    NeverHappened,
    /// They were kept, and lost when a later crash found no newer checkpoint.
    Lost,
    /// It was stopped in the middle. What it had done by then was kept, but is not recorded.
    Interrupted,
    /// It did not end before the journal did.
    Unfinished,
}

impl Fate {
    /// In words: `kept`, `undone`, …
    pub fn name(self) -> &'static str {
        match self {
            Fate::Kept => "kept",
            Fate::Undone => "undone",
            Fate::NeverHappened => "not kept",
            Fate::Lost => "lost with a later crash",
            Fate::Interrupted => "interrupted",
            Fate::Unfinished => "not finished",
        }
    }
}

/// Something that has to be done to make the state at the end again.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<'a> {
    /// Run a cell.
    Cell(&'a CellStory),
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
pub struct Story<'a> {
    /// Every cell, in order.
    pub cells: Vec<CellStory>,
    steps: Vec<Item<'a>>,
}

#[derive(Debug, Clone, PartialEq)]
enum Item<'a> {
    /// By its place among the cells.
    Cell(usize),
    Other(Step<'a>),
}

impl Journal {
    /// What the records mean.
    pub fn story(&self) -> Story<'_> {
        let mut story = Story {
            cells: Vec::new(),
            steps: Vec::new(),
        };
        for line in &self.lines {
            story.tell(line.at, &line.record);
        }
        story
    }
}

impl<'a> Story<'a> {
    /// What led to the state at the end, in order.
    pub fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        self.steps.iter().map(|item| match item {
            Item::Cell(index) => Step::Cell(&self.cells[*index]),
            Item::Other(step) => step.clone(),
        })
    }

    /// The cells whose effects are there at the end.
    pub fn kept(&self) -> impl Iterator<Item = &CellStory> {
        self.cells.iter().filter(|cell| cell.fate == Fate::Kept)
    }

    fn tell(&mut self, at: f64, record: &'a Record) {
        match record {
            Record::Begun {
                cell,
                code,
                timeout,
                atomic,
                env,
                silent,
            } => self.cells.push(CellStory {
                number: *cell,
                cell: Cell {
                    code: code.clone(),
                    timeout: *timeout,
                    atomic: *atomic,
                    env: env.clone(),
                    silent: *silent,
                    ..Cell::default()
                },
                begun_at: at,
                ended: None,
                fate: Fate::Unfinished,
            }),
            Record::Ended(ended) => self.end(ended),
            Record::Seeded { variables } => self.step(Step::Seed(variables)),
            Record::Tools { tools } => self.step(Step::Tools(tools)),
            Record::Reset => self.step(Step::Reset),
            Record::PutFile {
                path,
                bytes,
                contents,
            } => self.step(Step::PutFile(path, *bytes, contents.as_ref())),
            Record::Undone { stands, .. } => self.go_back(*stands, Fate::Undone),
            Record::Restored { stands } => self.go_back(*stands, Fate::Lost),
            Record::Opened(_)
            | Record::Forked { .. }
            | Record::Stopped { .. }
            | Record::Closed { .. } => {}
        }
    }

    fn step(&mut self, step: Step<'a>) {
        self.steps.push(Item::Other(step));
    }

    fn end(&mut self, ended: &Ended) {
        let begun = self
            .cells
            .iter()
            .rposition(|cell| cell.number == ended.cell);
        let Some(index) = begun.filter(|index| self.cells[*index].ended.is_none()) else {
            return;
        };
        let fate = match (ended.result.state.outcome, ended.result.status) {
            (StateOutcome::Restored | StateOutcome::Ended, _) => Fate::NeverHappened,
            (StateOutcome::Kept, Status::Interrupted) => Fate::Interrupted,
            (StateOutcome::Kept, _) => Fate::Kept,
        };
        self.cells[index].fate = fate;
        self.cells[index].ended = Some(ended.clone());
        match fate {
            Fate::Kept => self.steps.push(Item::Cell(index)),
            // Also what came before it may be gone: a checkpoint can be behind.
            Fate::NeverHappened => self.go_back(ended.stands, Fate::Lost),
            _ => {}
        }
    }

    /// The state is again the one after cell `stands`. What was done between that cell and the next belongs to it; files that the
    /// host put there stay.
    fn go_back(&mut self, stands: u64, fate: Fate) {
        for cell in &mut self.cells {
            if cell.fate == Fate::Interrupted && cell.number > stands {
                cell.fate = fate;
            }
        }
        let is_later = |cells: &[CellStory], item: &Item<'_>| match item {
            Item::Cell(index) => cells[*index].number > stands,
            Item::Other(_) => false,
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
                Item::Cell(index) => self.cells[index].fate = fate,
                Item::Other(step @ Step::PutFile(..)) => self.steps.push(Item::Other(step)),
                Item::Other(_) => {}
            }
        }
    }
}
