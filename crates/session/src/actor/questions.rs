//! Questions to the head while no cell runs.

use crate::actor::exit_status::died_idle;
use crate::actor::{Actor, AfterCell};
use crate::{Error, Refusal};
use cellblock_protocol::guest::{Reply, ToHead};
use std::time::Duration;
use tokio::time::timeout;

impl Actor {
    /// Asks the head something that is not a cell.
    pub(crate) async fn ask(
        &mut self,
        operation: Box<dyn FnOnce(u64) -> ToHead + Send + Sync>,
        limit: Duration,
    ) -> (Result<Reply, Error>, AfterCell) {
        self.live.note_outside_changes().await;
        let question = self.live.head.next_question();
        let operation = operation(question);
        let record = self.cells.journal.operation(&operation);
        let changes = matches!(
            operation,
            ToHead::Seed { .. } | ToHead::Tools { .. } | ToHead::Reset { .. }
        );
        let step = changes.then(|| operation.clone());
        match timeout(
            limit,
            self.live
                .head
                .exchange(&self.live.base.logs, operation, question),
        )
        .await
        {
            Ok(Ok(reply)) => {
                if let Some(step) = step
                    && reply.clone().done().is_ok()
                {
                    if let Err(reason) = self.cells.journal.commit(record).await {
                        let session = self.shared.id.clone();
                        let error = Error::Ended {
                            session,
                            reason: reason.clone(),
                        };
                        return (Err(error), AfterCell::Over(reason));
                    }
                    self.live.checkpoints.steps.note_operation(step);
                }
                (Ok(reply), AfterCell::GoesOn)
            }
            Ok(Err(_)) | Err(_) => {
                let reason = match self.live.end_head().await {
                    Some(death) => died_idle(death.exit),
                    None => self.live.placement.process_host.why_lost().await,
                };
                if let Some(hit) = self.live.files.disk.hit() {
                    let (session, reason) = (self.shared.id.clone(), hit.reason());
                    let error = Error::Ended {
                        session,
                        reason: reason.clone(),
                    };
                    return (Err(error), AfterCell::Over(reason));
                }
                let dirty = self.live.files.disk.changes().await;
                let (after, restoration) = self.survive(reason.clone(), dirty, None).await;
                if matches!(after, AfterCell::GoesOn) {
                    self.announce_restored();
                    self.tell_of(&restoration);
                }
                let session = self.shared.id.clone();
                let error = match after {
                    AfterCell::GoesOn => Refusal::WentBack { reason }.into(),
                    AfterCell::Over(_) => Error::Ended { session, reason },
                };
                (Err(error), after)
            }
        }
    }
}
