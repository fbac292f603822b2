//! A queue of jobs in a map and a log file.

use super::log::Log;
use crate::engine::{EngineError, Job, Pushed, Queue, TakenJob, Ticket};
use crate::lock::lock;
use crate::names::JobId;
use crate::runtime::{BoxFuture, Runtime};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The queue of one machine.
pub(super) struct LocalQueue {
    runtime: Arc<dyn Runtime>,
    lease: Duration,
    state: Mutex<State>,
}

struct State {
    log: Log<Change>,
    /// Jobs that are not finished, by the order in which they were pushed.
    open: BTreeMap<u64, OpenJob>,
    numbers: HashMap<JobId, u64>,
    answers: HashMap<JobId, Bytes>,
}

struct OpenJob {
    job: Job,
    delivery: u64,
    taken_until: Option<Duration>,
}

/// A line of the log. Which jobs are taken is not kept: after a start none is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
enum Change {
    Pushed { id: JobId, body: Vec<u8> },
    Finished { id: JobId, answer: Vec<u8> },
}

impl LocalQueue {
    pub(super) fn in_memory(runtime: Arc<dyn Runtime>, lease: Duration) -> LocalQueue {
        LocalQueue::new(runtime, lease, Log::in_memory(), Vec::new())
    }

    pub(super) fn open(
        path: &Path,
        runtime: Arc<dyn Runtime>,
        lease: Duration,
    ) -> Result<LocalQueue, EngineError> {
        let (log, changes) = Log::open(path)?;
        Ok(LocalQueue::new(runtime, lease, log, changes))
    }

    fn new(
        runtime: Arc<dyn Runtime>,
        lease: Duration,
        log: Log<Change>,
        changes: Vec<Change>,
    ) -> LocalQueue {
        let mut state = State {
            log,
            open: BTreeMap::new(),
            numbers: HashMap::new(),
            answers: HashMap::new(),
        };
        for change in changes {
            state.note(change);
        }
        LocalQueue {
            runtime,
            lease,
            state: Mutex::new(state),
        }
    }
}

impl State {
    fn write(&mut self, change: Change) -> Result<(), EngineError> {
        self.log.append(change.clone())?;
        self.note(change);
        Ok(())
    }

    fn note(&mut self, change: Change) {
        match change {
            Change::Pushed { id, body } => {
                let number = self.numbers.len() as u64;
                self.numbers.insert(id.clone(), number);
                let open = OpenJob {
                    job: Job {
                        id,
                        body: body.into(),
                    },
                    delivery: 0,
                    taken_until: None,
                };
                self.open.insert(number, open);
            }
            Change::Finished { id, answer } => {
                if let Some(number) = self.numbers.get(&id) {
                    self.open.remove(number);
                }
                self.answers.insert(id, answer.into());
            }
        }
    }

    fn take(&mut self, now: Duration, lease: Duration) -> Option<TakenJob> {
        let is_free = |open: &&mut OpenJob| open.taken_until.is_none_or(|until| until <= now);
        let open = self.open.values_mut().find(is_free)?;
        open.delivery += 1;
        open.taken_until = Some(now + lease);
        Some(TakenJob {
            job: open.job.clone(),
            delivery: open.delivery,
            ticket: Ticket(open.delivery.to_string()),
        })
    }

    fn extend(&mut self, until: Duration, taken: &TakenJob) {
        let number = self.numbers.get(&taken.job.id);
        let open = number.and_then(|number| self.open.get_mut(number));
        // A job that another node has by now is left to that node.
        if let Some(open) = open
            && open.delivery == taken.delivery
        {
            open.taken_until = Some(until);
        }
    }
}

impl Queue for LocalQueue {
    fn push<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<Pushed, EngineError>> {
        Box::pin(async move {
            let mut state = lock(&self.state);
            if state.numbers.contains_key(&job.id) {
                return Ok(Pushed::Duplicate);
            }
            state.write(Change::Pushed {
                id: job.id.clone(),
                body: job.body.to_vec(),
            })?;
            Ok(Pushed::Stored)
        })
    }

    fn take(&self) -> BoxFuture<'_, Result<Option<TakenJob>, EngineError>> {
        Box::pin(async move { Ok(lock(&self.state).take(self.runtime.now(), self.lease)) })
    }

    fn extend<'a>(&'a self, taken: &'a TakenJob) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(async move {
            lock(&self.state).extend(self.runtime.now() + self.lease, taken);
            Ok(())
        })
    }

    fn finish<'a>(
        &'a self,
        taken: &'a TakenJob,
        answer: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, EngineError>> {
        Box::pin(async move {
            let mut state = lock(&self.state);
            if let Some(earlier) = state.answers.get(&taken.job.id) {
                return Ok(earlier.clone());
            }
            state.write(Change::Finished {
                id: taken.job.id.clone(),
                answer: answer.to_vec(),
            })?;
            Ok(answer)
        })
    }

    fn answer<'a>(&'a self, job: &'a JobId) -> BoxFuture<'a, Result<Option<Bytes>, EngineError>> {
        Box::pin(async move { Ok(lock(&self.state).answers.get(job).cloned()) })
    }
}
