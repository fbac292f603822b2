//! A durable queue of jobs with one answer for each.

use super::EngineError;
use crate::names::JobId;
use crate::runtime::BoxFuture;
use bytes::Bytes;

/// Work that waits for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its id. A job that is pushed again under the same id is the same job.
    pub id: JobId,
    /// What is to be done.
    pub body: Bytes,
}

/// What became of a pushed job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It waits now.
    Stored,
    /// It was pushed before.
    Duplicate,
}

/// The right to work on a job, until its time is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket(pub String);

/// A job that a node took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenJob {
    /// The job.
    pub job: Job,
    /// How often it was taken, this time included. More than 1 means that a node took it before and did not finish it.
    pub delivery: u64,
    /// For [`Queue::extend`] and [`Queue::finish`].
    pub ticket: Ticket,
}

/// Jobs that nodes take, each until it is finished.
///
/// A job whose node falls silent is given to another node, so a job may be worked on twice. Its answer is stored once: the first one
/// stays.
pub trait Queue: Send + Sync {
    /// Adds a job, once for each id.
    fn push<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<Pushed, EngineError>>;

    /// Takes the oldest job that waits, if there is one. It is given to another node if it is neither finished nor extended within the
    /// time of a lease.
    fn take(&self) -> BoxFuture<'_, Result<Option<TakenJob>, EngineError>>;

    /// Says that the work goes on: the time of the job begins anew.
    fn extend<'a>(&'a self, taken: &'a TakenJob) -> BoxFuture<'a, Result<(), EngineError>>;

    /// Stores the answer of a job and removes the job. Returns the answer that stands: an earlier one, if there is one.
    fn finish<'a>(
        &'a self,
        taken: &'a TakenJob,
        answer: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, EngineError>>;

    /// The answer of a job, once it is finished.
    fn answer<'a>(&'a self, job: &'a JobId) -> BoxFuture<'a, Result<Option<Bytes>, EngineError>>;
}
