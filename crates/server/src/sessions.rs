//! Sessions of users: opened within the user's limits, found by their owner alone, rebuilt from their journals.

use crate::auth::{Caller, random_id, random_seed};
use crate::error::ApiError;
use crate::live::{
    CellOutcome, DisplayFiles, EventRing, LiveSession, QueuedBy, SessionHooks, SessionParts,
    Subject,
};
use crate::places::UserPlace;
use crate::state::AppState;
use crate::store::{SessionRow, SessionStatus, UsageRow};
use axum::http::StatusCode;
use cellblock_host::Session;
use cellblock_host::journal::{Journal, JournalError, Journals, RestoreReport};
use cellblock_protocol::{
    Cell, CellResult, Isolation, Journaling, Limits, SessionOptions, Status, WorkspacePlace,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;

/// The longest title.
const MAX_TITLE_CHARS: usize = 200;

/// What a new session is to be.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewSession {
    pub(crate) title: Option<String>,
    pub(crate) options: SessionOptions,
    pub(crate) chat: Option<String>,
}

impl AppState {
    /// Opens a session for a user.
    pub(crate) async fn open_session(
        &self,
        caller: &Caller,
        new: NewSession,
    ) -> Result<Arc<LiveSession>, ApiError> {
        self.check_options(caller, &new.options)?;
        self.open_checked_session(caller, new).await
    }

    /// Opens a session whose options the server itself decided, within the limits of its user.
    pub(crate) async fn open_checked_session(
        &self,
        caller: &Caller,
        new: NewSession,
    ) -> Result<Arc<LiveSession>, ApiError> {
        let mut options = new.options;
        let memory = options.limits.memory;
        self.check_account(caller).await?;
        let place = self.take_place(&caller.user, memory)?;
        let id = random_id("s")?;
        options.session = Some(id.clone());
        if self.cluster().is_some() && options.random_seed.is_none() {
            // Recorded, so that the session draws the same numbers when it is made again on another node.
            options.random_seed = Some(random_seed()?);
        }
        options.journal = Journaling::In(self.data("journals"));
        let session = self.open_on_host(&caller.user, options).await?;
        let row = SessionRow {
            id,
            user: caller.id().to_owned(),
            title: title(new.title.as_deref(), "Session")?,
            parent: None,
            chat: new.chat,
            journal: session.journal().map(|journal| journal.id.to_owned()),
            status: SessionStatus::Open,
            reason: None,
            life: 0,
            memory: i64::try_from(memory).unwrap_or(i64::MAX),
            created_at: self.store().now(),
            used_at: self.store().now(),
        };
        let live = self.adopt(row, session, 0, None, place).await?;
        self.metrics()
            .sessions_opened
            .fetch_add(1, Ordering::Relaxed);
        self.audit(caller.id(), "session.open", Some(&live.id), None)
            .await;
        Ok(live)
    }

    /// Opens a session whose workspace is at this path. Walls without a view of their own cannot put it there: then it is where it always is.
    pub(crate) async fn open_session_at(
        &self,
        caller: &Caller,
        place: &str,
        new: NewSession,
    ) -> Result<Arc<LiveSession>, ApiError> {
        let mut placed = new.clone();
        placed.options.workspace_at = WorkspacePlace::new(place).unwrap_or_default();
        match self.open_checked_session(caller, placed).await {
            Err(error) if error.status() == StatusCode::UNPROCESSABLE_ENTITY => {
                self.open_checked_session(caller, new).await
            }
            other => other,
        }
    }

    /// Queues a cell, within the limits of its user. Returns its number, and its outcome when it is over.
    pub(crate) async fn queue_cell(
        &self,
        caller: &Caller,
        live: &LiveSession,
        cell: Cell,
    ) -> Result<(u64, oneshot::Receiver<CellOutcome>), ApiError> {
        self.check_cell_quota(caller).await?;
        let by = QueuedBy {
            user: caller.user.name.clone(),
        };
        let (number, outcome) = live.queue(cell, by)?;
        self.store().post_cell_audit(caller.id(), &live.id, number);
        Ok((number, outcome))
    }

    /// Refuses a caller whose account was locked or removed after the connection began: a WebSocket of a kernel outlives the request that
    /// opened it.
    async fn check_account(&self, caller: &Caller) -> Result<(), ApiError> {
        let user = self.store().user(caller.id()).await?;
        match user.is_some_and(|user| !user.disabled) {
            true => Ok(()),
            false => Err(ApiError::unauthenticated("the account is locked")),
        }
    }

    /// The row of a session of this caller. Sessions of others do not exist for the caller.
    pub(crate) async fn session_row(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<SessionRow, ApiError> {
        if let Some(cluster) = self.cluster() {
            return cluster.row(caller, id).await;
        }
        let row = self.store().session(caller.id(), id).await?;
        row.ok_or_else(|| ApiError::not_found("session"))
    }

    /// A session of this caller, alive. One whose process is gone is rebuilt from its journal first.
    pub(crate) async fn session(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Arc<LiveSession>, ApiError> {
        if let Some(live) = self.live().get(id).filter(|live| live.user == caller.id()) {
            return Ok(live);
        }
        if let Some(cluster) = self.cluster() {
            return cluster.bring(self, caller, id).await;
        }
        let row = self.session_row(caller, id).await?;
        if row.status == SessionStatus::Closed {
            return Err(ApiError::new(
                axum::http::StatusCode::GONE,
                "ended",
                format!("session `{id}` was closed"),
            )
            .hint("its journal can still be read and exported"));
        }
        let lock = self.live().rebuild_lock(id);
        let _turn = lock.lock().await;
        // Another request may have rebuilt it meanwhile.
        if let Some(live) = self.live().get(id) {
            return Ok(live);
        }
        self.rebuild(caller, row).await
    }

    /// The journal of a session of this caller.
    pub(crate) async fn journal(&self, caller: &Caller, id: &str) -> Result<Journal, ApiError> {
        let row = self.session_row(caller, id).await?;
        self.journal_of(&row).await
    }

    async fn journal_of(&self, row: &SessionRow) -> Result<Journal, ApiError> {
        match self.cluster() {
            Some(cluster) => cluster.journal(&row.id).await,
            None => self.read_journal(row.journal.as_deref()).await,
        }
    }

    /// Closes a session for good. Its journal stays.
    pub(crate) async fn close_session(&self, id: &str) -> Result<(), ApiError> {
        match self.cluster() {
            Some(cluster) => cluster.close(id).await?,
            None => self.store().close_session(id).await?,
        }
        if let Some(live) = self.live().remove(id) {
            live.close().await;
        }
        let displays = self.displays_directory(id);
        let _ = tokio::task::spawn_blocking(move || DisplayFiles::remove(&displays)).await;
        Ok(())
    }

    /// Runs the cells of a session again in a clean one, and tells what differs. Nothing of the clean session stays.
    pub(crate) async fn verify_session(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Value, ApiError> {
        let row = self.session_row(caller, id).await?;
        let _place = self.take_place(&caller.user, u64::try_from(row.memory).unwrap_or(0))?;
        let journal = self.journal_of(&row).await?;
        let restored = self
            .restore_for(&caller.user)
            .journal(false)
            .run(self.host(), &journal)
            .await?;
        restored.session.close().await;
        let mut told = report_json(&restored.report);
        told["is_same"] = restored.report.is_same().into();
        Ok(told)
    }

    /// The directory of a session's large displays.
    pub(crate) fn displays_directory(&self, id: &str) -> PathBuf {
        self.data("displays").join(id)
    }

    async fn rebuild(
        &self,
        caller: &Caller,
        row: SessionRow,
    ) -> Result<Arc<LiveSession>, ApiError> {
        let place = self.take_place(&caller.user, u64::try_from(row.memory).unwrap_or(0))?;
        let journal = self
            .read_journal(row.journal.as_deref())
            .await
            .map_err(|error| {
                ApiError::new(
                    axum::http::StatusCode::GONE,
                    "ended",
                    format!(
                        "session `{}` has ended, and its journal is gone: {}",
                        row.id, error.message
                    ),
                )
            })?;
        let restore = self.restore_for(&caller.user);
        let restore = restore.journal(self.data("journals").as_path());
        let restored = restore.run(self.host(), &journal).await?;
        let report = &restored.report;
        let last_cell = journal.summary().cells.iter().map(|cell| cell.number).max();
        let told = report_json(report);
        let id = restored
            .session
            .journal()
            .map(|journal| journal.id.to_owned());
        let life = self.store().session_rebuilt(&row.id, id).await?;
        let row = SessionRow { life, ..row };
        let live = self.add_live(
            &row,
            restored.session,
            last_cell.unwrap_or(0),
            Some(told.clone()),
        );
        drop(place);
        live.publish("rebuilt", told);
        self.metrics()
            .sessions_rebuilt
            .fetch_add(1, Ordering::Relaxed);
        Ok(live)
    }

    async fn read_journal(&self, id: Option<&str>) -> Result<Journal, ApiError> {
        let id = id.ok_or_else(|| ApiError::not_found("journal"))?.to_owned();
        let journals = Journals::new(self.data("journals"));
        let read = tokio::task::spawn_blocking(move || journals.find(&id)?.read()).await;
        let read = read.map_err(|error| ApiError::internal(error.to_string()))?;
        // What the error says names directories of the server.
        read.map_err(|error| match error {
            JournalError::NotFound { .. } => ApiError::new(
                axum::http::StatusCode::NOT_FOUND,
                "not_found",
                "this session has no journal yet: it begins with the first cell",
            ),
            _ => ApiError::internal("the journal of this session cannot be read"),
        })
    }

    /// Keeps a session that was just opened, in the store and in memory. From now on it counts itself, and its place is free.
    pub(crate) async fn adopt(
        &self,
        row: SessionRow,
        session: Session,
        last_cell: u64,
        rebuilt: Option<Value>,
        place: UserPlace,
    ) -> Result<Arc<LiveSession>, ApiError> {
        let added = match self.cluster() {
            Some(cluster) => match self.store().user(&row.user).await {
                Ok(user) => {
                    let name = user.map(|user| user.name).unwrap_or_default();
                    cluster.add(&name, &row, &session).await
                }
                Err(error) => Err(error.into()),
            },
            None => self
                .store()
                .add_session(row.clone())
                .await
                .map_err(Into::into),
        };
        if let Err(error) = added {
            session.close().await;
            return Err(error);
        }
        let live = self.add_live(&row, session, last_cell, rebuilt);
        drop(place);
        Ok(live)
    }

    /// Keeps a session in memory.
    pub(crate) fn add_live(
        &self,
        row: &SessionRow,
        session: Session,
        last_cell: u64,
        rebuilt: Option<Value>,
    ) -> Arc<LiveSession> {
        let life = u64::try_from(row.life).unwrap_or(0);
        let parts = SessionParts {
            id: row.id.clone(),
            user: row.user.clone(),
            session,
            ring: Arc::new(EventRing::new(Subject::Session(row.id.clone()), life)),
            displays: DisplayFiles::new(self.displays_directory(&row.id)),
            rebuilt,
            memory: u64::try_from(row.memory).unwrap_or(0),
            last_cell,
        };
        let live = LiveSession::start(
            parts,
            Arc::new(Hooks {
                state: self.clone(),
            }),
        );
        self.live().insert(&live);
        live
    }

    /// Refuses options that would reach beyond the session: directories and walls of the host are its operator's.
    fn check_options(&self, caller: &Caller, options: &SessionOptions) -> Result<(), ApiError> {
        let refuse = |field: &str, why: &str| Err(ApiError::forbidden(format!("{field}: {why}")));
        if options.session.is_some() {
            return Err(ApiError::invalid(
                "session: the server chooses the id; give a `title`",
            ));
        }
        if options.journal != Journaling::HostsChoice {
            return Err(ApiError::invalid(
                "journal: every session of the server keeps one",
            ));
        }
        let quotas = self.quotas_of(&caller.user);
        // A session that asks for no limit has that of its user.
        let is_asked = options.limits.disk != Limits::DEFAULT.disk;
        if is_asked && options.limits.disk > quotas.disk {
            return Err(ApiError::invalid(format!(
                "limits.disk: at most {} bytes",
                quotas.disk
            )));
        }
        if caller.is_admin() {
            return Ok(());
        }
        let only_admins = "only administrators may set this";
        if options.workspace.is_some() {
            return refuse("workspace", only_admins);
        }
        if options.container.is_some() {
            return refuse("container", only_admins);
        }
        if options.has_network() || !options.credentials.is_empty() {
            return refuse("network", only_admins);
        }
        if options.isolation != Isolation::default() {
            return refuse("isolation", only_admins);
        }
        if options
            .env
            .as_deref()
            .is_some_and(|env| env.contains(['/', '.']))
        {
            return refuse(
                "env",
                "only administrators may name a file; give the name of an environment",
            );
        }
        Ok(())
    }
}

/// What came of a replay, as JSON.
pub(crate) fn report_json(report: &RestoreReport) -> Value {
    let left_out = report.left_out.iter();
    let left_out = left_out.map(|left| json!({"cell": left.cell, "fate": left.fate}));
    let differences = report.differences.iter().map(|difference| {
        json!({"cell": difference.cell, "what": difference.what, "was": difference.was, "is": difference.is})
    });
    json!({
        "replayed": report.replayed,
        "left_out": left_out.collect::<Vec<_>>(),
        "differences": differences.collect::<Vec<_>>(),
        "incomplete": report.incomplete,
    })
}

/// A title in bounds, or the one that is used without.
pub(crate) fn title(given: Option<&str>, otherwise: &str) -> Result<String, ApiError> {
    let title = given
        .map(str::trim)
        .filter(|title| !title.is_empty())
        .unwrap_or(otherwise);
    if title.chars().count() > MAX_TITLE_CHARS {
        return Err(ApiError::invalid(format!(
            "title: at most {MAX_TITLE_CHARS} characters"
        )));
    }
    Ok(title.to_owned())
}

/// What the server does when something happens in a session.
struct Hooks {
    state: AppState,
}

impl SessionHooks for Hooks {
    fn cell_ended(&self, session: &LiveSession, result: &CellResult) {
        self.state.count_cell(&session.user, result);
    }

    fn ended(&self, session: &LiveSession, reason: &str) {
        // Rebuilt already: the reason is of a life before.
        if !self.state.live().remove_ended(session) {
            return;
        }
        let (state, id, reason) = (self.state.clone(), session.id.clone(), reason.to_owned());
        tokio::spawn(async move {
            match state.cluster() {
                Some(cluster) => cluster.put_to_sleep(&id).await,
                None => {
                    let _ = state.store().session_ended(&id, &reason).await;
                }
            }
        });
    }
}

impl AppState {
    /// Refuses a cell of a user who has run too many, or for too long.
    pub(crate) async fn check_cell_quota(&self, caller: &Caller) -> Result<(), ApiError> {
        let quotas = self.quotas_of(&caller.user);
        self.rates().take(caller.id(), quotas.cells_per_minute)?;
        quotas.check_time(&self.store().usage_today(caller.id()).await?, self.store())
    }

    /// Counts a cell that ended, for the metrics and the quotas of its user.
    pub(crate) fn count_cell(&self, user: &str, result: &CellResult) {
        if result.status == Status::Crashed {
            let crashed = &self.metrics().cells_crashed;
            crashed.fetch_add(1, Ordering::Relaxed);
        }
        self.count_cell_time(user, result.usage.wall);
    }

    /// Counts a cell, and the time that it took.
    pub(crate) fn count_cell_time(&self, user: &str, took: Duration) {
        let metrics = self.metrics();
        metrics.cells.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        metrics
            .cell_microseconds
            .fetch_add(micros, Ordering::Relaxed);
        let used = UsageRow {
            cells: 1,
            wall_ms: i64::try_from(micros.div_ceil(1000)).unwrap_or(i64::MAX),
            ..UsageRow::default()
        };
        self.store().post_usage(user, used);
    }
}
