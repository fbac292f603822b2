//! What should be so: the cells that count, in order. Everything else never happened.

use super::common::python;
use super::steps::{CHANGES_NOTHING, ONLY_BINDS};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The model of one session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    entries: Vec<StoryEntry>,
    /// Entries from before it was forked, which cannot be taken back.
    inherited: usize,
    /// The cells after which a checkpoint must be there; those that changed nothing share one.
    reachable: Vec<Vec<u64>>,
    /// What is in the workspace by a person's hand.
    from_outside: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
enum StoryEntry {
    /// What ran before the first cell, and cannot be taken back.
    Setup(String),
    Cell {
        number: u64,
        code: String,
        seen: Seen,
    },
    Seed(u8),
    Reset,
}

/// What a cell shows to who ran it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) stdout: String,
    /// The type of the exception that it ended with.
    pub(crate) error: Option<String>,
}

/// Why cells cannot be taken back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutOfReach;

impl Story {
    pub(crate) fn begin(setup: &str) -> Story {
        Story {
            entries: vec![StoryEntry::Setup(setup.to_owned())],
            reachable: vec![vec![0]],
            ..Story::default()
        }
    }

    /// A cell that was kept. The history has this many `checkpoints` of earlier states.
    pub(crate) fn keep(&mut self, number: u64, code: String, seen: Seen, checkpoints: u64) {
        match self.reachable.last_mut() {
            Some(last) if code == CHANGES_NOTHING => last.push(number),
            _ => self.reachable.push(vec![number]),
        }
        self.entries.push(StoryEntry::Cell { number, code, seen });
        self.trim(checkpoints);
    }

    fn trim(&mut self, checkpoints: u64) {
        let most = checkpoints as usize + 1;
        let surplus = self.reachable.len().saturating_sub(most);
        self.reachable.drain(..surplus);
    }

    pub(crate) fn seed(&mut self, number: u8, checkpoints: u64) {
        self.entries.push(StoryEntry::Seed(number));
        self.change_between_cells(checkpoints);
    }

    pub(crate) fn reset(&mut self, checkpoints: u64) {
        self.entries.push(StoryEntry::Reset);
        self.change_between_cells(checkpoints);
    }

    /// The state after the last cell is another one now. Those before it that were the same are not.
    fn change_between_cells(&mut self, checkpoints: u64) {
        let last = self.reachable.last_mut().unwrap();
        if last.len() > 1 {
            let cell = last.pop().unwrap();
            self.reachable.push(vec![cell]);
            self.trim(checkpoints);
        }
    }

    pub(crate) fn put(&mut self, path: &str, text: &str) {
        self.from_outside.insert(path.to_owned(), text.to_owned());
    }

    /// The story of a fork: all that came before, and a history of its own.
    pub(crate) fn fork(&self) -> Story {
        Story {
            inherited: self.entries.len(),
            reachable: vec![vec![0]],
            ..self.clone()
        }
    }

    /// Takes back the last `count` cells with all that came after them. Returns the last cell that is left.
    pub(crate) fn undo(&mut self, count: usize) -> Result<u64, OutOfReach> {
        let cells = self.cells();
        let left = cells.len().checked_sub(count).ok_or(OutOfReach)?;
        let target = left.checked_sub(1).map_or(0, |last| cells[last]);
        if !self.reachable.iter().flatten().any(|cell| *cell == target) {
            return Err(OutOfReach);
        }
        self.take_back_to(target);
        Ok(target)
    }

    /// Takes back all that came after a cell.
    pub(crate) fn take_back_to(&mut self, target: u64) {
        if let Some(first) = self.cells().into_iter().find(|cell| *cell > target) {
            let is_first = |entry: &StoryEntry| matches!(entry, StoryEntry::Cell { number, .. } if *number == first);
            let end = self.entries.iter().position(is_first).unwrap();
            self.entries.truncate(end);
        }
        for same in &mut self.reachable {
            same.retain(|cell| *cell <= target);
        }
        self.reachable.retain(|same| !same.is_empty());
        if self.reachable.is_empty() {
            self.reachable.push(vec![target]);
        }
    }

    pub(crate) fn has_cells_that_only_bind(&self) -> bool {
        let only_binds = |entry: &StoryEntry| matches!(entry, StoryEntry::Cell { code, .. } if ONLY_BINDS.contains(&code.as_str()));
        self.entries.iter().any(only_binds)
    }

    fn cells(&self) -> Vec<u64> {
        let number = |entry: &StoryEntry| match entry {
            StoryEntry::Cell { number, .. } => Some(*number),
            _ => None,
        };
        self.entries[self.inherited..]
            .iter()
            .filter_map(number)
            .collect()
    }

    /// What the cells that count showed.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let seen = |entry: &StoryEntry| match entry {
            StoryEntry::Cell { seen, .. } => Some(seen.clone()),
            _ => None,
        };
        self.entries.iter().filter_map(seen).collect()
    }

    /// Lets plain Python do it all in `directory`; what each cell showed, and what `last` prints in the end.
    pub(crate) fn told_by_plain_python(&self, directory: &Path, last: &str) -> (Vec<Seen>, String) {
        let entries: Vec<Value> = self.entries.iter().map(StoryEntry::to_json).collect();
        for (path, text) in &self.from_outside {
            fs::write(directory.join(path), text).unwrap();
        }
        let story = json!({"entries": entries, "last": last});
        let answer = plain_python(directory, &story.to_string());
        let answer: Value = serde_json::from_str(&answer)
            .unwrap_or_else(|error| panic!("plain Python ended early ({error}): a cell that was kept should have ended the process\n{story:#}"));
        let seen = answer["seen"].as_array().unwrap().iter();
        let seen = seen.map(|seen| Seen {
            stdout: seen["stdout"].as_str().unwrap().to_owned(),
            error: seen["error"].as_str().map(str::to_owned),
        });
        (seen.collect(), answer["last"].as_str().unwrap().to_owned())
    }
}

impl StoryEntry {
    fn to_json(&self) -> Value {
        match self {
            StoryEntry::Setup(code) => json!({"setup": code}),
            StoryEntry::Cell { code, .. } => json!({"run": code}),
            StoryEntry::Seed(number) => json!({"seed": {"given": number}}),
            StoryEntry::Reset => json!({"reset": true}),
        }
    }
}

fn plain_python(directory: &Path, input: &str) -> String {
    let mut child = Command::new(python())
        .args(["-I", "-S", "-X", "utf8", "-c", include_str!("reference.py")])
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}
