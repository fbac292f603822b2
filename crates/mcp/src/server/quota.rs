//! What the user behind a client may use, where the server knows its users.

use cellblock_protocol::Limits;
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The limits of one user. The server that accepts the connections implements it.
pub trait ClientQuota: Send + Sync + 'static {
    /// The limits of one session of the user: those that are wanted, lowered to what the user may have.
    fn bounded(&self, wanted: Limits) -> Limits;

    /// Takes a place for one more session, or says why there is none.
    fn take_session(&self) -> Result<SessionPlace, String>;

    /// Takes one call of a tool that uses the interpreter, or says why it is refused.
    fn begin_call(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>>;

    /// Tells how long such a call took. A call that was cancelled is told too.
    fn end_call(&self, took: Duration);
}

/// A client that has just connected: what the function that makes its tool runner is given.
#[derive(Clone, Debug, Default)]
pub struct NewClient {
    user: Option<ClientUser>,
}

impl NewClient {
    pub(super) fn of_user(user: ClientUser) -> NewClient {
        NewClient { user: Some(user) }
    }

    /// The limits of a session of this client: those that are wanted, lowered to what its user may have.
    pub fn bounded(&self, wanted: Limits) -> Limits {
        match &self.user {
            Some(user) => user.quota.bounded(wanted),
            None => wanted,
        }
    }
}

/// A place for one session. It is free again when the last clone is dropped.
#[derive(Clone)]
pub struct SessionPlace {
    _held: Arc<dyn Any + Send + Sync>,
}

impl SessionPlace {
    /// A place that is free again when `held` is dropped.
    pub fn new(held: impl Any + Send + Sync) -> SessionPlace {
        SessionPlace {
            _held: Arc::new(held),
        }
    }
}

impl fmt::Debug for SessionPlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SessionPlace").finish_non_exhaustive()
    }
}

/// The user behind a request, and the place of the session that the request begins.
#[derive(Clone)]
pub struct ClientUser {
    quota: Arc<dyn ClientQuota>,
    place: Option<SessionPlace>,
}

impl ClientUser {
    /// The user of a request. A request that begins a session brings the place of that session.
    pub fn new(quota: Arc<dyn ClientQuota>, place: Option<SessionPlace>) -> ClientUser {
        ClientUser { quota, place }
    }

    pub(super) fn quota(&self) -> &Arc<dyn ClientQuota> {
        &self.quota
    }

    /// Takes one call. It is told to the quota when the value is dropped.
    pub(super) async fn begin_call(&self) -> Result<CountedCall, String> {
        self.quota.begin_call().await?;
        Ok(CountedCall {
            quota: Arc::clone(&self.quota),
            began: Instant::now(),
        })
    }
}

impl fmt::Debug for ClientUser {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ClientUser")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// A call that runs.
pub(super) struct CountedCall {
    quota: Arc<dyn ClientQuota>,
    began: Instant,
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.quota.end_call(self.began.elapsed());
    }
}

tokio::task_local! {
    /// The user of the request that is answered: the protocol's library makes the handlers of clients, and passes nothing on to them.
    static USER: ClientUser;
}

/// Answers a request for a user: handlers that are made meanwhile belong to that user.
pub(super) async fn as_user<T>(user: ClientUser, answer: impl Future<Output = T>) -> T {
    USER.scope(user, answer).await
}

/// The user of the request that is answered; none where the server does not know its users.
pub(super) fn current_user() -> Option<ClientUser> {
    USER.try_with(ClientUser::clone).ok()
}
