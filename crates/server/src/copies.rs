//! Sessions that begin as a copy of another: forks, and those that begin with a snapshot.

use crate::auth::{Caller, random_id};
use crate::error::ApiError;
use crate::live::LiveSession;
use crate::places::UserPlace;
use crate::sessions::{report_json, title};
use crate::state::AppState;
use crate::store::{SessionRow, SessionStatus};
use cellblock_host::Session;
use cellblock_host::journal::{CellFate, Journal, JournalRecord};
use serde_json::{Value, json};
use std::sync::Arc;

/// What a session that began as a copy of another is kept as.
#[derive(Debug)]
pub(crate) struct SessionCopy {
    pub(crate) title: String,
    pub(crate) parent: Option<String>,
    pub(crate) memory: u64,
    pub(crate) last_cell: u64,
    /// What came of the cells that ran again, where the copy was made from a journal.
    pub(crate) rebuilt: Option<Value>,
}

impl SessionCopy {
    /// A copy of a sandbox of E2B.
    pub(crate) fn of_sandbox(memory: u64, last_cell: u64) -> SessionCopy {
        SessionCopy {
            title: "E2B sandbox (copy)".to_owned(),
            parent: None,
            memory,
            last_cell,
            rebuilt: None,
        }
    }
}

impl AppState {
    /// Copies a session. The copy begins where the session stands, or where it stood after an earlier cell; 0 is its beginning.
    ///
    /// A checkpoint is a process of its session and cannot be copied out of it. So for an earlier state the cells until then run again, in
    /// a clean session and with the recorded answers to their calls.
    pub(crate) async fn fork_session(
        &self,
        caller: &Caller,
        parent: &LiveSession,
        at: Option<u64>,
    ) -> Result<Arc<LiveSession>, ApiError> {
        let place = self.take_place(&caller.user, parent.memory)?;
        let row = self.session_row(caller, &parent.id).await?;
        let (session, rebuilt) = match at {
            None => (parent.session.fork().await?, None),
            Some(cell) => {
                let mut journal = self.journal(caller, &parent.id).await?;
                take_back_to(&mut journal, cell)?;
                journal.session = random_id("s")?;
                let restore = self.restore_for(&caller.user);
                let restore = restore.journal(self.data("journals").as_path());
                let restored = restore.run(self.host(), &journal).await?;
                (restored.session, Some(report_json(&restored.report)))
            }
        };
        let copy = SessionCopy {
            title: title(Some(&row.title), "Session")?,
            parent: Some(parent.id.clone()),
            memory: parent.memory,
            last_cell: at.unwrap_or(parent.last_cell()),
            rebuilt,
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
        let (last_cell, rebuilt) = (copy.last_cell, copy.rebuilt);
        self.adopt(row, session, last_cell, rebuilt, place).await
    }
}

/// Ends a journal as if its session had been taken back to the state after this cell. Refused where the effects of the cell are not kept.
fn take_back_to(journal: &mut Journal, cell: u64) -> Result<(), ApiError> {
    let cells = journal.summary().cells;
    let kept = || cells.iter().filter(|cell| cell.fate == CellFate::Kept);
    if cell != 0 && !kept().any(|kept| kept.number == cell) {
        return Err(ApiError::not_found("cell whose effects are kept"));
    }
    let count = kept().filter(|kept| kept.number > cell).count() as u64;
    if let Some(mut line) = journal.lines.last().cloned() {
        line.n += 1;
        line.record = JournalRecord::Undone {
            count,
            stands: cell,
        };
        journal.lines.push(line);
    }
    Ok(())
}
