//! Journals as files, one for each session.

use super::log::{Log, failed};
use crate::engine::{AppendError, EngineError, Journals, Sequence, Stored, check_record_length};
use crate::lock::lock;
use crate::names::SessionId;
use crate::runtime::BoxFuture;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Journals of one machine: the place of a record is its line, counted from 1.
pub(super) struct LocalJournals {
    directory: Option<PathBuf>,
    journals: Mutex<BTreeMap<SessionId, Arc<Mutex<Journal>>>>,
}

struct Journal {
    log: Log<String>,
    last: Option<Stored>,
}

impl LocalJournals {
    pub(super) fn in_memory() -> LocalJournals {
        LocalJournals {
            directory: None,
            journals: Mutex::default(),
        }
    }

    /// Each journal is opened when it is first used.
    pub(super) fn open(directory: &std::path::Path) -> LocalJournals {
        LocalJournals {
            directory: Some(directory.to_owned()),
            journals: Mutex::default(),
        }
    }

    /// Does something with a journal. With files that happens on a thread of its own, because a sync takes milliseconds.
    async fn with<T: Send + 'static>(
        &self,
        session: &SessionId,
        act: impl FnOnce(&mut Journal) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let journal = self.journal(session)?;
        let act = move || act(&mut lock(&journal));
        if self.directory.is_none() {
            return Ok(act());
        }
        let done = tokio::task::spawn_blocking(act).await;
        done.map_err(|error| EngineError(error.to_string()))
    }

    fn names(&self) -> Result<Vec<SessionId>, EngineError> {
        let mut names: BTreeSet<SessionId> = lock(&self.journals).keys().cloned().collect();
        if let Some(directory) = &self.directory {
            let entries = fs::read_dir(directory).map_err(|error| failed(directory, &error))?;
            let stems = entries.flatten().filter_map(|entry| {
                let name = entry.file_name();
                SessionId::new(name.to_str()?.strip_suffix(".jsonl")?).ok()
            });
            names.extend(stems);
        }
        Ok(names.into_iter().collect())
    }

    fn journal(&self, session: &SessionId) -> Result<Arc<Mutex<Journal>>, EngineError> {
        let mut journals = lock(&self.journals);
        if let Some(journal) = journals.get(session) {
            return Ok(Arc::clone(journal));
        }
        let (log, records) = match &self.directory {
            None => (Log::in_memory(), Vec::new()),
            Some(directory) => Log::open(&directory.join(format!("{session}.jsonl")))?,
        };
        let last = stored(records).pop();
        let journal = Arc::new(Mutex::new(Journal { log, last }));
        journals.insert(session.clone(), Arc::clone(&journal));
        Ok(journal)
    }
}

impl Journal {
    fn append(&mut self, after: Sequence, record: Bytes) -> Result<Sequence, AppendError> {
        let last = self
            .last
            .as_ref()
            .map_or(Sequence::START, |last| last.sequence);
        if last != after {
            return Err(AppendError::Conflict);
        }
        let text = String::from_utf8(record.to_vec()).map_err(|_| AppendError::NotText)?;
        let appended = self.log.append(text);
        appended.map_err(|error| AppendError::Unknown(error.to_string()))?;
        let sequence = Sequence(last.0 + 1);
        self.last = Some(Stored { sequence, record });
        Ok(sequence)
    }
}

fn stored(records: Vec<String>) -> Vec<Stored> {
    let with_place = |(record, number): (String, u64)| Stored {
        sequence: Sequence(number),
        record: record.into(),
    };
    records.into_iter().zip(1..).map(with_place).collect()
}

impl Journals for LocalJournals {
    fn append<'a>(
        &'a self,
        session: &'a SessionId,
        after: Sequence,
        record: Bytes,
    ) -> BoxFuture<'a, Result<Sequence, AppendError>> {
        Box::pin(async move {
            check_record_length(&record)?;
            let append = move |journal: &mut Journal| journal.append(after, record);
            let appended = self.with(session, append).await;
            appended.map_err(|error| AppendError::Unknown(error.to_string()))?
        })
    }

    fn last<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<Stored>, EngineError>> {
        Box::pin(self.with(session, |journal| journal.last.clone()))
    }

    fn read<'a>(
        &'a self,
        session: &'a SessionId,
        until: Sequence,
    ) -> BoxFuture<'a, Result<Vec<Stored>, EngineError>> {
        Box::pin(async move {
            let values = self.with(session, |journal| journal.log.values()).await?;
            let mut records = stored(values?);
            records.retain(|stored| stored.sequence <= until);
            Ok(records)
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SessionId>, EngineError>> {
        Box::pin(async move { self.names() })
    }

    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(async move {
            let path = self.directory.as_ref();
            let path = path.map(|directory| directory.join(format!("{session}.jsonl")));
            let remove = move |journal: &mut Journal| {
                // An owner that still holds the journal finds another last record than the one that it knows.
                *journal = Journal {
                    log: Log::in_memory(),
                    last: None,
                };
                match path.map(|path| (fs::remove_file(&path), path)) {
                    Some((Err(error), path)) if error.kind() != io::ErrorKind::NotFound => {
                        Err(failed(&path, &error))
                    }
                    _ => Ok(()),
                }
            };
            let removed = self.with(session, remove).await?;
            lock(&self.journals).remove(session);
            removed
        })
    }
}
