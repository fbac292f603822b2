//! The records of a journal, and the chain of hashes that shows whether one was removed or changed.

use crate::engine::{Digest, Epoch};
use crate::names::{NodeId, RequestKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of records that this program writes. It reads no newer one.
pub const RECORD_VERSION: u32 = 2;

/// One record of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The version of the format.
    pub v: u32,
    /// The number of the record, counted from 0 without gaps.
    pub n: u64,
    /// The digest of the record before it, over its bytes. The first record has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev: Option<Digest>,
    /// The epoch of the owner that wrote it.
    pub epoch: Epoch,
    /// What happened.
    #[serde(flatten)]
    pub body: RecordBody,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum RecordBody {
    /// A node took the session. All later records of earlier epochs are refused.
    Owner {
        /// The node.
        node: NodeId,
    },
    /// A cell has happened.
    Cell {
        /// The idempotency key of its request.
        key: RequestKey,
        /// What was asked.
        cell: Value,
        /// What was answered.
        result: Value,
    },
    /// Something happened in a run of the agent.
    Event {
        /// What happened.
        event: Value,
    },
}

/// Why a journal cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A record is not readable.
    #[error("record {n} of the journal cannot be read: {error}")]
    Unreadable {
        /// The number that it should have.
        n: u64,
        /// What is wrong.
        error: String,
    },
    /// A record is missing.
    #[error("record {expected} of the journal is missing; record {found} follows")]
    Missing {
        /// The number of the first record that is missing.
        expected: u64,
        /// The number of the record in its place.
        found: u64,
    },
    /// The record before this one is not the one that it was written after.
    #[error(
        "record {n} of the journal does not follow from the record before it: one of them was changed"
    )]
    Changed {
        /// The number of the later record.
        n: u64,
    },
    /// A newer version of the program wrote the record.
    #[error(
        "record {n} of the journal has version {version}; this program reads up to {RECORD_VERSION}"
    )]
    Newer {
        /// Its number.
        n: u64,
        /// Its version.
        version: u32,
    },
}

/// The end of a journal: what the next record must name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    next: u64,
    last: Option<Digest>,
    epoch: Epoch,
}

impl Chain {
    /// The end of an empty journal.
    pub fn start() -> Chain {
        Chain {
            next: 0,
            last: None,
            epoch: Epoch(0),
        }
    }

    /// The end of a journal whose last record is this one. The records before it are not checked.
    pub fn after(record: &[u8]) -> Result<Chain, Damage> {
        let read = parse(record, 0)?;
        Ok(Chain {
            next: read.n + 1,
            last: Some(Digest::of(record)),
            epoch: read.epoch,
        })
    }

    /// The epoch of the last record. 0 for an empty journal.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The bytes of the next record. The chain stays as it is until the record is committed: see [`Chain::advance`].
    pub fn encode(&self, epoch: Epoch, body: RecordBody) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&Record {
            v: RECORD_VERSION,
            n: self.next,
            prev: self.last.clone(),
            epoch,
            body,
        })
    }

    /// Goes behind a record that was made with [`Chain::encode`].
    pub fn advance(&mut self, epoch: Epoch, record: &[u8]) {
        self.next += 1;
        self.last = Some(Digest::of(record));
        self.epoch = epoch;
    }

    /// Reads the next record, checks that it follows, and goes behind it.
    pub fn follow(&mut self, record: &[u8]) -> Result<Record, Damage> {
        let read = parse(record, self.next)?;
        if read.n != self.next {
            return Err(Damage::Missing {
                expected: self.next,
                found: read.n,
            });
        }
        if read.prev != self.last {
            return Err(Damage::Changed { n: read.n });
        }
        self.advance(read.epoch, record);
        Ok(read)
    }
}

fn parse(record: &[u8], n: u64) -> Result<Record, Damage> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    let unreadable = |error: serde_json::Error| Damage::Unreadable {
        n,
        error: error.to_string(),
    };
    // A newer record may have fields that cannot be read here, so its version is looked at first.
    let Version { v: version } = serde_json::from_slice(record).map_err(unreadable)?;
    if version > RECORD_VERSION {
        return Err(Damage::Newer { n, version });
    }
    serde_json::from_slice(record).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cell(number: u64) -> RecordBody {
        RecordBody::Cell {
            key: RequestKey::new(format!("k{number}")).unwrap(),
            cell: json!({ "code": "1" }),
            result: json!(number),
        }
    }

    fn journal(length: u64) -> Vec<Vec<u8>> {
        let mut chain = Chain::start();
        let mut records = Vec::new();
        for number in 0..length {
            let record = chain.encode(Epoch(1), cell(number)).unwrap();
            chain.advance(Epoch(1), &record);
            records.push(record);
        }
        records
    }

    fn damage(records: &[Vec<u8>]) -> Option<Damage> {
        let mut chain = Chain::start();
        records.iter().find_map(|record| chain.follow(record).err())
    }

    #[test]
    fn a_whole_journal_is_read() {
        let records = journal(4);
        assert_eq!(damage(&records), None);
        let mut chain = Chain::start();
        for record in &records {
            chain.follow(record).unwrap();
        }
        assert_eq!(Chain::after(&records[3]).unwrap(), chain);
    }

    #[test]
    fn a_removed_record_is_found() {
        let mut records = journal(4);
        records.remove(1);
        let expected = Damage::Missing {
            expected: 1,
            found: 2,
        };
        assert_eq!(damage(&records), Some(expected));
    }

    #[test]
    fn a_changed_record_is_found() {
        let mut records = journal(4);
        let text = String::from_utf8(records[1].clone()).unwrap();
        records[1] = text.replace("\"result\":1", "\"result\":7").into_bytes();
        assert_eq!(damage(&records), Some(Damage::Changed { n: 2 }));
    }

    #[test]
    fn a_record_of_a_newer_version_is_refused_by_its_version() {
        let newer = Damage::Newer { n: 0, version: 3 };
        assert_eq!(damage(&[b"{\"v\":3,\"new\":1}".to_vec()]), Some(newer));
    }
}
