//! Sessions that begin as a copy of another: forks, and those that begin with a snapshot.

use crate::auth::{Caller, random_id};
use crate::error::ApiError;
use crate::live::LiveSession;
use crate::places::UserPlace;
use crate::sessions::title;
use crate::state::AppState;
use crate::store::{SessionRow, SessionStatus};
use cellblock_host::Session;
use serde_json::json;
use std::sync::Arc;

/// What a session that began as a copy of another is kept as.
#[derive(Debug)]
pub(crate) struct SessionCopy {
    pub(crate) title: String,
    pub(crate) parent: Option<String>,
    pub(crate) memory: u64,
    pub(crate) last_cell: u64,
}

impl SessionCopy {
    /// A copy of a sandbox of E2B.
    pub(crate) fn of_sandbox(memory: u64, last_cell: u64) -> SessionCopy {
        SessionCopy {
            title: "E2B sandbox (copy)".to_owned(),
            parent: None,
            memory,
            last_cell,
        }
    }
}

impl AppState {
    /// Copies a session. The copy begins where the session stands.
    pub(crate) async fn fork_session(
        &self,
        caller: &Caller,
        parent: &LiveSession,
    ) -> Result<Arc<LiveSession>, ApiError> {
        let place = self.take_place(&caller.user, parent.memory)?;
        let row = self.session_row(caller, &parent.id).await?;
        let session = parent.session.fork().await?;
        let copy = SessionCopy {
            title: title(Some(&row.title), "Session")?,
            parent: Some(parent.id.clone()),
            memory: parent.memory,
            last_cell: parent.last_cell(),
        };
        let live = self.adopt_copy(caller, session, copy, place).await?;
        let id = live.id.clone();
        parent.publish("forked", json!({"fork": id}));
        self.audit(caller.id(), "session.fork", Some(&parent.id), Some(id))
            .await;
        Ok(live)
    }

    /// Keeps a session that began as a copy of another as one of the caller's.
    pub(crate) async fn adopt_copy(
        &self,
        caller: &Caller,
        session: Session,
        copy: SessionCopy,
        place: UserPlace,
    ) -> Result<Arc<LiveSession>, ApiError> {
        let row = SessionRow {
            id: random_id("s")?,
            user: caller.id().to_owned(),
            title: copy.title,
            parent: copy.parent,
            chat: None,
            journal: session.journal().map(|journal| journal.id.to_owned()),
            status: SessionStatus::Open,
            reason: None,
            life: 0,
            memory: i64::try_from(copy.memory).unwrap_or(i64::MAX),
            created_at: self.store().now(),
            used_at: self.store().now(),
        };
        self.adopt(row, session, copy.last_cell, place).await
    }
}
