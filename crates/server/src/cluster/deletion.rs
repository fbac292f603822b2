//! Sessions that are deleted with everything of them, at once or some time after they were closed.

use super::sessions::session_id;
use super::{Cluster, unavailable};
use crate::error::ApiError;
use crate::state::AppState;
use cellblock_cluster::engine::EngineError;
use cellblock_cluster::retention::{self, Retention, Swept};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often one of the nodes sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3600);
/// How often an entry is marked that changes at the same time.
const MAX_MARK_ATTEMPTS: usize = 20;
const MARK_RETRY_PAUSE: Duration = Duration::from_millis(50);

impl Cluster {
    /// Closes a session and deletes its journal, its runs, its events, its entry, and the blobs that only they name. Blobs that were put
    /// within the last hour are left to the next sweep: the answer says how many.
    pub(crate) async fn forget(&self, id: &str) -> Result<Value, ApiError> {
        self.close(id).await?;
        let session = session_id(id)?;
        let failed = |error: EngineError| unavailable(&error.0);
        for _ in 0..MAX_MARK_ATTEMPTS {
            if retention::forget(&self.engine, &session)
                .await
                .map_err(failed)?
            {
                let swept = self.sweep().await.map_err(failed)?;
                return Ok(
                    json!({"deleted": true, "blobs_left_for_the_next_sweep": swept.young_blobs}),
                );
            }
            tokio::time::sleep(MARK_RETRY_PAUSE).await;
        }
        Err(unavailable("the session could not be marked as deleted"))
    }

    async fn sweep(&self) -> Result<Swept, EngineError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs();
        retention::sweep(&self.engine, self.retention, now).await
    }

    /// Sweeps once an hour while this node is the first of the nodes, until the server stops.
    pub(super) async fn sweep_for_ever(self: Arc<Self>, state: AppState) {
        loop {
            tokio::select! {
                () = state.stop().cancelled() => return,
                () = tokio::time::sleep(SWEEP_INTERVAL) => {}
            }
            let nodes = self.engine.members.list().await.unwrap_or_default();
            let first = nodes.iter().map(|node| &node.node).min();
            if first == Some(&self.node.id()) && self.node.has_lease() {
                // What fails now is done the next time.
                let _ = self.sweep().await;
            }
        }
    }
}

/// What a cluster keeps unless its options say otherwise.
pub(super) const DEFAULT_RETENTION: Retention = Retention {
    closed: None,
    young_blobs: Duration::from_secs(3600),
};
