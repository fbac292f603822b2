//! Deletion that really deletes: journals, entries and events of sessions, and the blobs that no journal names any more.
//!
//! Blobs are shared, so they are marked and swept: what any journal names stays. Names are looked for as text: whatever looks like a digest
//! in a record keeps the blob of that digest. A crash at any place leaves more than there should be, never less, and the next sweep goes on.

use crate::engine::{Digest, Engine, EngineError, SessionEntry, SessionState};
use crate::names::SessionId;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;

/// The field of a closed session's entry that says since when it is known to be closed, in seconds since 1970.
const CLOSED_AT: &str = "closed_at";
/// The field of a session's entry that says that everything of it is to be deleted.
const FORGOTTEN: &str = "forgotten";
const DIGEST_CHARS: usize = 64;

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Sessions with their journals, events and entries.
    pub sessions: usize,
    /// Journals of runs that had ended.
    pub runs: usize,
    /// Blobs that no journal named.
    pub blobs: usize,
    /// Blobs that no journal named, and that were put so recently that a record of them may be under way. The next sweep removes them.
    pub young_blobs: usize,
}

/// What a sweep keeps.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// How long sessions are kept after they were closed, and runs after they were asked. `None`: for ever.
    pub closed: Option<Duration>,
    /// How long a blob is kept that no journal names: longer than any node takes from the `put` of a blob to the record that names it.
    pub young_blobs: Duration,
}

/// Notes that everything of a closed session is to be deleted. From then on the session is not listed, and the next sweep deletes it. Returns
/// `false` if it is not closed, or changed at this moment.
pub async fn forget(engine: &Engine, session: &SessionId) -> Result<bool, EngineError> {
    let Some(placed) = engine.directory.get(session).await? else {
        return Ok(true);
    };
    if placed.entry.state != SessionState::Closed {
        return Ok(false);
    }
    let entry = SessionEntry {
        // Nothing that the user wrote stays.
        about: json!({ FORGOTTEN: true }),
        ..placed.entry
    };
    let claimed = engine.directory.claim(session, Some(placed.epoch), &entry);
    Ok(claimed.await.is_ok())
}

/// Deletes the sessions that are to be forgotten, those that were closed long ago with their runs, and the blobs that nothing names. Reads
/// all journals. Any number of nodes may sweep at the same time.
pub async fn sweep(
    engine: &Engine,
    retention: Retention,
    now_seconds: u64,
) -> Result<Swept, EngineError> {
    let sessions = expired_sessions(engine, retention, now_seconds).await?;
    let mut swept = Swept::default();
    let mut named = HashSet::new();
    for journal in engine.journals.list().await? {
        if sessions.contains(&journal) {
            continue;
        }
        let read = read(engine, &journal).await?;
        if read
            .run
            .is_some_and(|run| run.is_expired(&sessions, retention, now_seconds))
        {
            engine.journals.remove(&journal).await?;
            engine.events.remove(&journal).await?;
            swept.runs += 1;
        } else {
            named.extend(read.named);
        }
    }
    for session in &sessions {
        engine.journals.remove(session).await?;
        engine.events.remove(session).await?;
    }
    for blob in engine.blobs.list().await? {
        if !named.contains(&blob) {
            match engine.blobs.remove(&blob, retention.young_blobs).await? {
                true => swept.blobs += 1,
                false => swept.young_blobs += 1,
            }
        }
    }
    // Last: as long as the entry is there, a sweep that was cut off begins again.
    for session in &sessions {
        engine.directory.remove(session).await?;
        swept.sessions += 1;
    }
    Ok(swept)
}

/// The sessions that are to be deleted. A session that is newly closed gets the time from which it counts.
async fn expired_sessions(
    engine: &Engine,
    retention: Retention,
    now_seconds: u64,
) -> Result<HashSet<SessionId>, EngineError> {
    let mut expired = HashSet::new();
    for (session, placed) in engine.directory.list().await? {
        let about = &placed.entry.about;
        if placed.entry.state != SessionState::Closed {
            continue;
        }
        if is_forgotten(&placed.entry) {
            expired.insert(session);
            continue;
        }
        let Some(kept) = retention.closed else {
            continue;
        };
        match about[CLOSED_AT].as_u64() {
            Some(closed) if closed.saturating_add(kept.as_secs()) <= now_seconds => {
                expired.insert(session);
            }
            Some(_) => {}
            None => {
                let mut entry = placed.entry.clone();
                if !entry.about.is_object() {
                    entry.about = json!({});
                }
                entry.about[CLOSED_AT] = json!(now_seconds);
                // If it changed meanwhile, the next sweep looks again.
                let claimed = engine.directory.claim(&session, Some(placed.epoch), &entry);
                let _ = claimed.await;
            }
        }
    }
    Ok(expired)
}

/// Whether an entry is that of a session which is to be deleted.
pub fn is_forgotten(entry: &SessionEntry) -> bool {
    entry.state == SessionState::Closed && entry.about[FORGOTTEN] == true
}

/// What a sweep needs to know of a journal.
#[derive(Default)]
struct ReadJournal {
    named: HashSet<Digest>,
    /// Set if it is the journal of a run that has ended.
    run: Option<EndedRun>,
}

struct EndedRun {
    session: Option<SessionId>,
    asked_seconds: Option<u64>,
}

impl EndedRun {
    fn is_expired(
        &self,
        sessions: &HashSet<SessionId>,
        retention: Retention,
        now_seconds: u64,
    ) -> bool {
        let of_session = self.session.as_ref();
        let is_old = match (retention.closed, self.asked_seconds) {
            (Some(kept), Some(asked)) => asked.saturating_add(kept.as_secs()) <= now_seconds,
            _ => false,
        };
        of_session.is_some_and(|session| sessions.contains(session)) || is_old
    }
}

async fn read(engine: &Engine, journal: &SessionId) -> Result<ReadJournal, EngineError> {
    let mut read = ReadJournal::default();
    let Some(last) = engine.journals.last(journal).await? else {
        return Ok(read);
    };
    let mut asked_seconds = None;
    for stored in engine.journals.read(journal, last.sequence).await? {
        read.named.extend(digests_in(&stored.record));
        let Ok(record) = serde_json::from_slice::<Value>(&stored.record) else {
            continue;
        };
        let mut packed = Vec::new();
        packed_values(&record, &mut packed);
        for value in packed {
            let unpacked = unpack(engine, &value).await?;
            read.named.extend(digests_in(&unpacked));
        }
        let event = &record["event"];
        if let Some(seconds) = event["asked"]["created_at"].as_u64() {
            asked_seconds = Some(seconds);
        }
        if let Some(ended) = event.get("ended") {
            let session = ended["run"]["session"].as_str();
            read.run = Some(EndedRun {
                session: session.and_then(|session| SessionId::new(session).ok()),
                asked_seconds,
            });
        }
    }
    Ok(read)
}

/// The lists of digests that stand for a value which was too long for its record.
fn packed_values(value: &Value, found: &mut Vec<Vec<Digest>>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match serde_json::from_value(field.clone()) {
                    Ok(digests) if name == "blobs" => found.push(digests),
                    _ => packed_values(field, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| packed_values(value, found)),
        _ => {}
    }
}

/// The bytes of a packed value. A part that is missing is left out: what it named cannot be used either.
async fn unpack(engine: &Engine, digests: &[Digest]) -> Result<Vec<u8>, EngineError> {
    let mut bytes = Vec::new();
    for digest in digests {
        if let Some(part) = engine.blobs.get(digest).await? {
            bytes.extend_from_slice(&part);
        }
    }
    Ok(bytes)
}

/// All that looks like a digest in a text.
fn digests_in(text: &[u8]) -> impl Iterator<Item = Digest> {
    let words = text.split(|byte| !byte.is_ascii_alphanumeric());
    let long = words.filter(|word| word.len() >= DIGEST_CHARS);
    // A word may have more before and after it, such as the `n` of a line's end in a text of JSON.
    let parts = long.flat_map(|word| word.windows(DIGEST_CHARS));
    parts.filter_map(|part| Digest::try_from(String::from_utf8_lossy(part).into_owned()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_found_wherever_they_stand() {
        let (one, two) = (Digest::of(b"one"), Digest::of(b"two"));
        let text = format!(
            "{{\"a\":\"{one}\",\"b\":\"\\n{two}\",\"c\":\"{}\"}}",
            &one.as_str()[1..]
        );
        let found: HashSet<Digest> = digests_in(text.as_bytes()).collect();
        assert_eq!(found, HashSet::from([one, two]));
    }
}
