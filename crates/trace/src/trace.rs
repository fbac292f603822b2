//! The records of a trace, and reading those of one run.

use cellblock_records::{LineReader, NextLine, rotated_files};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// One line of a trace: a span that ended, or an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When the span began or the event happened, in seconds since 1970.
    pub at: f64,
    /// The name of a span, or the message of an event.
    pub name: String,
    /// The duration of a span in milliseconds. An event has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<f64>,
    /// The id of a span within its process. Ids are used again after a span has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The id of the span around this record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// The id of the run that this record belongs to: the field `run` of a span around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The id of the process.
    pub pid: u32,
    /// The level, such as `INFO` or `WARN`.
    pub level: String,
    /// The target: the module that made the record.
    pub target: String,
    /// All other fields.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
}

impl Record {
    /// Whether the record is a span, and not an event.
    pub fn is_span(&self) -> bool {
        self.ms.is_some()
    }

    /// The value of a field that is a text.
    pub fn text_field(&self, field: &str) -> Option<&str> {
        self.fields.get(field)?.as_str()
    }

    /// Whether the field `outcome` names a failure. A record without that field did not fail.
    pub fn is_failed(&self) -> bool {
        const SUCCESSES: &[&str] = &["ok", "success", "answered"];
        let outcome = self.text_field("outcome");
        outcome.is_some_and(|outcome| !SUCCESSES.contains(&outcome))
    }
}

/// The longest line that is read. Longer ones are skipped.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// All spans and events of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    records: Vec<Record>,
    /// For each record, the index of the span around it.
    parents: Vec<Option<usize>>,
}

impl Trace {
    /// Reads the records of a run from the file at this path and its older files. Lines that cannot be read are skipped.
    pub fn read(path: &Path, run: &str) -> io::Result<Self> {
        let mut records = Vec::new();
        for path in rotated_files(path) {
            let mut reader = LineReader::open(&path, MAX_LINE_BYTES)?;
            loop {
                match reader.next_line::<Record>()? {
                    NextLine::End => break,
                    NextLine::Whole { value, .. } if value.run.as_deref() == Some(run) => {
                        records.push(value);
                    }
                    _ => {}
                }
            }
        }
        Ok(Self::from_records(records))
    }

    /// Makes a trace of records in any order.
    pub fn from_records(mut records: Vec<Record>) -> Self {
        // Of two spans that began at the same moment, the longer one is around the other.
        let length = |record: &Record| record.ms.unwrap_or(-1.0);
        records.sort_by(|a, b| {
            let longer_first = length(b).total_cmp(&length(a));
            a.at.total_cmp(&b.at).then(longer_first)
        });
        let mut spans: HashMap<(u32, u64), Vec<usize>> = HashMap::new();
        for (index, record) in records.iter().enumerate() {
            if let Some(id) = record.id {
                spans.entry((record.pid, id)).or_default().push(index);
            }
        }
        // The id of a span that has ended is used again: the last span with that id that began before this record is meant.
        let parent = |index: usize, record: &Record| {
            let candidates = spans.get(&(record.pid, record.parent?))?;
            let before = candidates.partition_point(|candidate| *candidate < index);
            candidates.get(before.checked_sub(1)?).copied()
        };
        let parents = records.iter().enumerate();
        let parents = parents.map(|(index, record)| parent(index, record));
        Self {
            parents: parents.collect(),
            records,
        }
    }

    /// The spans and events, in the order in which they began.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    pub(crate) fn spans(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|record| record.is_span())
    }

    /// The index of this record and of all spans around it, the innermost first.
    pub(crate) fn with_ancestors(&self, index: usize) -> impl Iterator<Item = usize> {
        // A parent always comes before its child, so this ends.
        std::iter::successors(Some(index), |index| self.parents[*index])
    }
}
