//! A run that was kept, read again.

use crate::RunError;
use crate::directory::{id_of, is_locked};
use crate::line::{Beginning, Ending, Entry, Line, VERSION};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

/// The longest line that is read. Beyond it the file is not one of ours.
const LONGEST_LINE: u64 = 64 << 20;

/// A run, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// When it began, in seconds since 1970.
    pub at: f64,
    /// What it began with.
    pub begun: Beginning,
    /// What happened, in order.
    pub events: Vec<Kept>,
    /// How it stands.
    pub life: Life,
    /// Why something is missing, if so.
    pub incomplete: Option<String>,
    /// Where the last whole line ends, and which number comes next.
    pub(crate) end: (u64, u64),
}

/// An event with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Seconds since 1970.
    pub at: f64,
    /// The event.
    pub event: Value,
}

/// How a run stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Life {
    /// It goes on in some program.
    Alive,
    /// It ended.
    Ended(Ending),
    /// Its program ended first. It can be resumed.
    CutOff,
}

impl Run {
    /// Reads a run. A last line that was not finished is left out; so is all that follows something unreadable.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let mut run = Self::read_file(path)?;
        if run.life == Life::CutOff && is_locked(path) {
            run.life = Life::Alive;
        }
        Ok(run)
    }

    pub(crate) fn read_file(path: &Path) -> Result<Self, RunError> {
        let file = File::open(path).map_err(|source| unreadable(path, source))?;
        let mut reader = BufReader::new(file);
        let first = match next_line(&mut reader).map_err(|source| unreadable(path, source))? {
            Next::Whole(line, bytes) => (line, bytes),
            Next::Broken(problem) => return Err(not_a_run(path, problem)),
            Next::End => return Err(not_a_run(path, "it is empty".into())),
        };
        let Entry::Run { version, begun } = first.0.entry else {
            return Err(not_a_run(path, "it does not begin with a run".into()));
        };
        if version != VERSION {
            let problem = format!("it has version {version}, and this program reads {VERSION}");
            return Err(not_a_run(path, problem));
        }
        let mut run = Self {
            id: id_of(path),
            at: first.0.at,
            begun,
            events: Vec::new(),
            life: Life::CutOff,
            incomplete: None,
            end: (first.1, 1),
        };
        loop {
            match next_line(&mut reader).map_err(|source| unreadable(path, source))? {
                Next::End => break,
                Next::Broken(problem) => {
                    run.incomplete = Some(problem);
                    break;
                }
                Next::Whole(line, _) if line.n != run.end.1 => {
                    let expected = run.end.1;
                    run.incomplete = Some(format!("line {expected} is missing"));
                    break;
                }
                Next::Whole(line, bytes) => run.take(line, bytes),
            }
        }
        Ok(run)
    }

    fn take(&mut self, line: Line, bytes: u64) {
        self.end = (self.end.0 + bytes, line.n + 1);
        match line.entry {
            Entry::Event(event) => self.events.push(Kept { at: line.at, event }),
            Entry::Stopped { reason } => {
                self.incomplete = Some(format!("it was not written to the end: {reason}"));
            }
            Entry::Ended(ending) => self.life = Life::Ended(ending),
            Entry::Run { .. } | Entry::Resumed {} => {}
        }
    }
}

enum Next {
    Whole(Line, u64),
    Broken(String),
    End,
}

fn next_line(reader: &mut BufReader<File>) -> std::io::Result<Next> {
    let mut text = Vec::new();
    let bytes = reader.take(LONGEST_LINE).read_until(b'\n', &mut text)?;
    Ok(match text.last() {
        None => Next::End,
        Some(b'\n') => match serde_json::from_slice(&text) {
            Ok(line) => Next::Whole(line, bytes as u64),
            Err(error) => Next::Broken(format!("a line cannot be read: {error}")),
        },
        Some(_) => Next::Broken("its last line was not finished".into()),
    })
}

fn unreadable(path: &Path, source: std::io::Error) -> RunError {
    RunError::Unreadable {
        path: path.to_owned(),
        source,
    }
}

fn not_a_run(path: &Path, problem: String) -> RunError {
    RunError::NotARun {
        path: path.to_owned(),
        problem,
    }
}
