//! A trace, read again.

use crate::{Record, rotating};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

/// The longest line that is looked at.
const LONGEST_LINE: u64 = 1 << 20;

/// What is known of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    records: Vec<Record>,
    /// For each record, the span around it.
    parents: Vec<Option<usize>>,
}

impl Trace {
    /// Reads what the files say of a run, those that were moved aside included. Lines that cannot be read are passed over.
    pub fn read(path: &Path, run: &str) -> io::Result<Self> {
        let mut records = Vec::new();
        for path in rotating::all(path) {
            let mut reader = BufReader::new(File::open(path)?);
            let mut line = Vec::new();
            while (&mut reader)
                .take(LONGEST_LINE)
                .read_until(b'\n', &mut line)?
                > 0
            {
                if let Ok(record) = serde_json::from_slice::<Record>(&line)
                    && record.run.as_deref() == Some(run)
                {
                    records.push(record);
                }
                line.clear();
            }
        }
        Ok(Self::new(records))
    }

    /// A trace of these records.
    pub fn new(mut records: Vec<Record>) -> Self {
        // What began at the same moment and took longer is around the other.
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
        // Numbers are used again after a span has ended: the last one that began before is meant.
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

    /// Spans and events, in the order of their beginning.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    pub(crate) fn spans(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|record| record.is_span())
    }

    /// This record and all spans around it, the innermost first.
    pub(crate) fn upwards(&self, index: usize) -> impl Iterator<Item = usize> {
        // A parent always stands before its child, so this ends.
        std::iter::successors(Some(index), |index| self.parents[*index])
    }
}
