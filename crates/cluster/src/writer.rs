//! The end of a journal in the hands of the node that may append there: the fence, and appends whose outcome is always settled.

use crate::engine::{AppendError, Engine, Epoch, Journals, Sequence};
use crate::names::{NodeId, SessionId};
use crate::owner::{AdoptError, RunError};
use crate::record::{Chain, RecordBody};
use crate::runtime::Runtime;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// How long a writer waits before it asks again what became of an append.
const SETTLE_PAUSE: Duration = Duration::from_millis(50);

/// How often a fence is tried before the adoption fails. The next request tries again.
const MAX_FENCE_ATTEMPTS: usize = 20;

/// Appends to the journal of a session or of a run, as long as no other node has appended there.
pub struct JournalWriter {
    journals: Arc<dyn Journals>,
    runtime: Arc<dyn Runtime>,
    session: SessionId,
    epoch: Epoch,
    last: Sequence,
    chain: Chain,
}

impl JournalWriter {
    /// Appends the `owner` record of an epoch. From then on, every append of an earlier owner is refused.
    pub async fn fence(
        engine: &Engine,
        runtime: &Arc<dyn Runtime>,
        node: &NodeId,
        session: &SessionId,
        epoch: Epoch,
    ) -> Result<JournalWriter, AdoptError> {
        let journals = &engine.journals;
        let writer = |last, chain| JournalWriter {
            journals: Arc::clone(journals),
            runtime: Arc::clone(runtime),
            session: session.clone(),
            epoch,
            last,
            chain,
        };
        let mut failure = String::new();
        for _ in 0..MAX_FENCE_ATTEMPTS {
            let last = match journals.last(session).await {
                Ok(last) => last,
                Err(error) => return Err(AdoptError::Engine(error.to_string())),
            };
            let (after, mut chain) = match last {
                None => (Sequence::START, Chain::start()),
                Some(stored) => (stored.sequence, Chain::after(&stored.record)?),
            };
            if chain.epoch() > epoch {
                return Err(AdoptError::Lost);
            }
            if chain.epoch() == epoch {
                // An earlier attempt got through after all. No other record has this epoch yet.
                return Ok(writer(after, chain));
            }
            let body = RecordBody::Owner { node: node.clone() };
            let encoded = chain.encode(epoch, body);
            let record =
                Bytes::from(encoded.map_err(|error| AdoptError::Engine(error.to_string()))?);
            match journals.append(session, after, record.clone()).await {
                Ok(sequence) => {
                    chain.advance(epoch, &record);
                    return Ok(writer(sequence, chain));
                }
                Err(error) => failure = error.to_string(),
            }
            runtime.sleep(SETTLE_PAUSE).await;
        }
        Err(AdoptError::Engine(failure))
    }

    /// All records up to the end that this writer knows, after a check of the chain of hashes.
    pub async fn read(&self) -> Result<Vec<RecordBody>, AdoptError> {
        let read = self.journals.read(&self.session, self.last).await;
        let records = read.map_err(|error| AdoptError::Engine(error.to_string()))?;
        let mut chain = Chain::start();
        let mut bodies = Vec::new();
        for stored in records {
            bodies.push(chain.follow(&stored.record)?.body);
        }
        if chain != self.chain {
            // The engine gave fewer records than it had when the fence was appended.
            return Err(AdoptError::Engine("the journal was not read whole".into()));
        }
        Ok(bodies)
    }

    /// The number of this ownership.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Later records have this epoch: the owner has changed its directory entry.
    pub(crate) fn set_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch;
    }

    /// Appends a record and returns once it is known to be in the journal, or known to be refused.
    pub async fn append(&mut self, body: RecordBody) -> Result<(), RunError> {
        let encoded = self.chain.encode(self.epoch, body);
        let encoded = encoded.map_err(|error| RunError::Unrecordable(error.to_string()))?;
        let record = Bytes::from(encoded);
        loop {
            let appended = self
                .journals
                .append(&self.session, self.last, record.clone())
                .await;
            let sequence = match appended {
                Ok(sequence) => Some(sequence),
                Err(AppendError::Conflict | AppendError::Unknown(_)) => {
                    settle(&*self.journals, &self.session, self.last, &record).await?
                }
                Err(error @ (AppendError::TooLarge { .. } | AppendError::NotText)) => {
                    return Err(RunError::Unrecordable(error.to_string()));
                }
            };
            if let Some(sequence) = sequence {
                self.last = sequence;
                self.chain.advance(self.epoch, &record);
                return Ok(());
            }
            self.runtime.sleep(SETTLE_PAUSE).await;
        }
    }
}

/// Says where a record is after an append at `after` whose outcome is not known. `None`: not there, so the same append is repeated.
///
/// Repeating is safe: both appends name the same place, so at most one of them succeeds.
async fn settle(
    journals: &dyn Journals,
    session: &SessionId,
    after: Sequence,
    record: &Bytes,
) -> Result<Option<Sequence>, RunError> {
    match journals.last(session).await {
        Ok(Some(stored)) if stored.record == record => Ok(Some(stored.sequence)),
        Ok(Some(stored)) if stored.sequence == after => Ok(None),
        // Another owner's record. This cell's record may stand before it; then the next owner answers its key.
        Ok(_) => Err(RunError::Fenced),
        Err(_) => Ok(None),
    }
}
