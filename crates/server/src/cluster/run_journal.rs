//! The record of a queued run in the cluster's journal: what another node needs to go on with the run.

use super::journaling::packed;
use cellblock_cluster::engine::{Blobs, Digest, Engine};
use cellblock_cluster::{JournalWriter, Node, RecordBody, RunError, RunId, RunQueue};
use cellblock_model::{Capabilities, Model, ModelError, Reply, ReplyEvent, ReplyStream, Request};
use futures_util::StreamExt as _;
use futures_util::stream;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// How often a node without a lease looks whether it has it again.
const LEASE_INTERVAL: Duration = Duration::from_millis(100);

/// The record of a run that this node has. Events are recorded in the order in which they are noted.
pub(crate) struct RunJournal {
    steps: mpsc::UnboundedSender<RunStep>,
    /// Replies that were recorded before, by the digest of their request.
    replies: Mutex<HashMap<Digest, VecDeque<Reply>>>,
    node: Arc<Node>,
    /// Cancelled once another node has the run.
    lost: CancellationToken,
}

struct RunStep {
    kind: StepKind,
    done: Option<oneshot::Sender<Result<(), String>>>,
}

enum StepKind {
    Event(Value),
    End(Value),
}

impl RunJournal {
    /// Goes on with the record of a run, in which these events are.
    pub(super) fn new(
        queue: RunQueue,
        engine: &Engine,
        node: Arc<Node>,
        id: RunId,
        journal: JournalWriter,
        events: &[Value],
    ) -> Arc<RunJournal> {
        let (steps, receiver) = mpsc::unbounded_channel();
        let mut replies: HashMap<Digest, VecDeque<Reply>> = HashMap::new();
        for event in events {
            let request = serde_json::from_value(event["request"].clone());
            let reply = serde_json::from_value(event["reply"].clone());
            if let (Ok(request), Ok(reply)) = (request, reply) {
                replies.entry(request).or_default().push_back(reply);
            }
        }
        let lost = CancellationToken::new();
        let writer = Writer {
            queue,
            blobs: Arc::clone(&engine.blobs),
            id,
            journal,
        };
        tokio::spawn(writer.write(receiver, lost.clone()));
        Arc::new(RunJournal {
            steps,
            replies: Mutex::new(replies),
            node,
            lost,
        })
    }

    /// Records an event of the run, in the background.
    pub(crate) fn note(&self, event: &impl serde::Serialize) {
        if let Ok(event) = serde_json::to_value(event) {
            let kind = StepKind::Event(json!({ "run_event": event }));
            let _ = self.steps.send(RunStep { kind, done: None });
        }
    }

    /// Records how the run ended. Refused if another node has the run by now.
    pub(crate) async fn finish(&self, end: Value) -> Result<(), String> {
        self.commit(StepKind::End(end)).await
    }

    /// Cancelled once another node has the run: then nothing counts that happens here.
    pub(crate) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    async fn commit(&self, kind: StepKind) -> Result<(), String> {
        let (done, outcome) = oneshot::channel();
        let done = Some(done);
        let moved = || "another node has the run".to_owned();
        self.steps
            .send(RunStep { kind, done })
            .map_err(|_| moved())?;
        outcome.await.unwrap_or_else(|_| Err(moved()))
    }

    fn take_reply(&self, request: &Digest) -> Option<Reply> {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        replies.get_mut(request)?.pop_front()
    }

    /// Waits until this node has its lease: a node that was stopped must not ask a model for a run that moved.
    async fn leased(&self) {
        while !self.node.has_lease() && !self.lost.is_cancelled() {
            tokio::time::sleep(LEASE_INTERVAL).await;
        }
    }
}

impl fmt::Debug for RunJournal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RunJournal").finish_non_exhaustive()
    }
}

/// The task that appends.
struct Writer {
    queue: RunQueue,
    blobs: Arc<dyn Blobs>,
    id: RunId,
    journal: JournalWriter,
}

impl Writer {
    async fn write(mut self, mut steps: mpsc::UnboundedReceiver<RunStep>, lost: CancellationToken) {
        while let Some(RunStep { kind, done }) = steps.recv().await {
            let outcome = match kind {
                StepKind::Event(event) => self.append(event).await,
                StepKind::End(end) => {
                    let ended = self.queue.finish(&self.id, &mut self.journal, end).await;
                    ended.map_err(|error| error.to_string())
                }
            };
            let is_lost = outcome.is_err();
            if let Some(done) = done {
                let _ = done.send(outcome);
            }
            if is_lost {
                lost.cancel();
                break;
            }
        }
        // Steps that are sent meanwhile are dropped here. One that came after the receiver was dropped would never be answered.
        steps.close();
        while steps.recv().await.is_some() {}
    }

    async fn append(&mut self, event: Value) -> Result<(), String> {
        let event = packed(&*self.blobs, event).await?;
        let appended = self.journal.append(RecordBody::Event { event }).await;
        appended.map_err(|error: RunError| error.to_string())
    }
}

/// A model whose replies are recorded before the run sees them, so that no reply is paid for twice.
pub(crate) struct RecordedModel {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) journal: Arc<RunJournal>,
}

impl Model for RecordedModel {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn capabilities(&self) -> &Capabilities {
        self.model.capabilities()
    }

    fn stream(&self, request: Request) -> ReplyStream {
        let digest = Digest::of(&serde_json::to_vec(&request).unwrap_or_default());
        if let Some(reply) = self.journal.take_reply(&digest) {
            return Box::pin(stream::iter([Ok(ReplyEvent::Finished { reply })]));
        }
        let (waiting, journal) = (Arc::clone(&self.journal), Arc::clone(&self.journal));
        // A stream that is not polled sends nothing.
        let events = self.model.stream(request);
        let begun = stream::once(async move {
            waiting.leased().await;
            events
        });
        let recorded = begun.flatten().then(move |event| {
            let (journal, digest) = (Arc::clone(&journal), digest.clone());
            async move {
                if let Ok(ReplyEvent::Finished { reply }) = &event {
                    let kind = StepKind::Event(json!({ "request": digest, "reply": reply }));
                    journal
                        .commit(kind)
                        .await
                        .map_err(|_| ModelError::Unfinished)?;
                }
                event
            }
        });
        Box::pin(recorded)
    }
}
