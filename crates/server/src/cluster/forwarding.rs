//! Requests for a session, at whichever node they arrive: they are answered by the node that owns the session.
//!
//! The first node knows the caller. It sends the request on as it is, over HTTP, with the epoch that it believes in. The owner checks its
//! lease and the epoch before and after it does the work. If it does not have the session any more, it says so, and the first node looks
//! for the next owner. A request that may have been done is repeated only if that is harmless: if it only reads, or has a key.

use super::peers::{Peer, SECRET_HEADER, USER_HEADER};
use super::sessions::{closed, session_id};
use super::{Cluster, unavailable};
use crate::auth::{Caller, random_id};
use crate::error::ApiError;
use crate::state::AppState;
use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use cellblock_cluster::engine::{Epoch, NodeRecord, Placed, SessionState};
use cellblock_cluster::placement::{Wanted, choose};
use cellblock_cluster::{CallError, NodeHealth, SessionId};
use cellblock_env::EnvironmentStatus;
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The header with the epoch under which the first node believes that the owner has the session.
const EPOCH_HEADER: &str = "x-cellblock-epoch";
/// The header of an answer that says that the node does not have the session.
const MOVED_HEADER: &str = "x-cellblock-moved";
/// The header with the idempotency key of a request.
pub(crate) const KEY_HEADER: &str = "idempotency-key";

/// Bodies up to this length are kept until the request is answered, so that it can be repeated.
const MAX_KEPT_BYTES: usize = 8 << 20;
/// How long an owner is looked for.
const FIND_TIMEOUT: Duration = Duration::from_secs(60);
/// How long an owner may be silent before it is asked whether it is there.
const MAX_OWNER_SILENCE: Duration = Duration::from_secs(1);
/// The pause before a request is repeated.
const FORWARD_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Sends a request for a session to its owner, or does it if this node is the owner.
pub(crate) async fn to_owner(
    State(state): State<AppState>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(cluster) = state.cluster() else {
        return next.run(request).await;
    };
    let is_peer = request.extensions().get::<Peer>().is_some();
    let path = request.uri().path();
    let answered = match path.strip_prefix("/v1/sessions") {
        Some("") if is_peer || request.method() != Method::POST => Ok(next.run(request).await),
        Some("") => open_somewhere(&state, cluster, request, next).await,
        Some(rest) => {
            let id = rest.trim_start_matches('/').split('/').next();
            let id = id.unwrap_or_default().to_owned();
            if is_peer {
                let epoch = request.headers_mut().remove(EPOCH_HEADER);
                serve_as_owner(cluster, &id, epoch, request, next).await
            } else {
                find_and_ask(cluster, &id, request, next).await
            }
        }
        None => Ok(next.run(request).await),
    };
    answered.unwrap_or_else(|error| error.into_response())
}

/// Answers a request of another node, if this node has the session under the epoch that the other one believes in.
async fn serve_as_owner(
    cluster: &Arc<Cluster>,
    id: &str,
    epoch: Option<HeaderValue>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let epoch = epoch.and_then(|epoch| epoch.to_str().ok()?.parse().ok());
    let Some(epoch) = epoch.map(Epoch) else {
        return Err(ApiError::invalid("the request names no epoch"));
    };
    let owned = serve_owned(cluster, &session_id(id)?, epoch, request, next).await;
    Ok(owned.unwrap_or_else(Gone::response))
}

/// Why a node did not answer a request for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    /// The node does not have the session, and has done nothing.
    Before,
    /// The node lost the session while it did the request. What it did counts only if it was recorded in time.
    Meanwhile,
}

/// Does a request on the node that owns its session.
async fn serve_owned(
    cluster: &Arc<Cluster>,
    session: &SessionId,
    epoch: Epoch,
    request: Request,
    next: Next,
) -> Result<Response, Gone> {
    let slot = cluster.slot(session.as_str()).ok_or(Gone::Before)?;
    let is_owner = cluster.node.has_lease() && !slot.is_ending();
    if cluster.node.epoch_of(session) != Some(epoch) || !is_owner {
        return Err(Gone::Before);
    }
    let response = next.run(request).await;
    let still = cluster.slot(session.as_str());
    let is_same = still.is_some_and(|still| Arc::ptr_eq(&still, &slot));
    let is_owner = is_same && !slot.is_lost() && cluster.node.has_lease();
    match is_owner || slot.is_closed() {
        true => Ok(response),
        false => Err(Gone::Meanwhile),
    }
}

impl Gone {
    /// What the other node is told.
    fn response(self) -> Response {
        let error = ApiError::conflict("moved", "the session is on another node");
        let mut response = error.into_response();
        let text = match self {
            Gone::Before => "before",
            Gone::Meanwhile => "meanwhile",
        };
        let name = HeaderName::from_static(MOVED_HEADER);
        let headers = response.headers_mut();
        headers.insert(name, HeaderValue::from_static(text));
        response
    }

    /// What another node told.
    fn of(response: &hyper::Response<hyper::body::Incoming>) -> Option<Gone> {
        let text = response.headers().get(MOVED_HEADER)?;
        Some(match text.as_bytes() {
            b"before" => Gone::Before,
            _ => Gone::Meanwhile,
        })
    }

    fn outcome(self) -> ForwardOutcome {
        match self {
            Gone::Before => ForwardOutcome::Moved,
            Gone::Meanwhile => ForwardOutcome::Lost,
        }
    }
}

/// Finds the owner of a session and has it answer, again and again until an owner does.
async fn find_and_ask(
    cluster: &Arc<Cluster>,
    id: &str,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let caller = caller_of(&request)?;
    let session = session_id(id)?;
    let is_description = request.uri().path() == format!("/v1/sessions/{id}");
    let mut kept = KeptRequest::new(request, id).await?;
    if is_description && kept.is_forgetting() {
        // Every node can delete what has no processes. It is not rebuilt for that.
        let placed = cluster.placed(id).await?;
        if placed.is_some_and(|placed| placed.entry.state != SessionState::Live) {
            return Ok(next.run(kept.request()?).await);
        }
    }
    if is_description && *kept.method() == Method::GET {
        // Every node can describe a session that sleeps. A description must not wake it.
        let placed = cluster.placed(id).await?;
        let is_asleep = |placed: &Placed| {
            let is_own = placed.entry.about["user"] == caller.user.name.as_str();
            is_own && placed.entry.state == SessionState::Asleep
        };
        if placed.as_ref().is_some_and(is_asleep) {
            return Ok(next.run(kept.request()?).await);
        }
    }
    let deadline = Instant::now() + FIND_TIMEOUT;
    loop {
        let found = cluster.gateway.find(&session, FIND_TIMEOUT).await;
        let placed = match found {
            Ok(placed) => placed,
            // What is left of it is in its journal, which every node can read. What needs the session is refused there.
            Err(CallError::Closed) => match cluster.placed(id).await? {
                Some(_) if *kept.method() == Method::GET => {
                    return Ok(next.run(kept.request()?).await);
                }
                _ => return Err(closed(id)),
            },
            Err(error) => return Err(unavailable(&error.to_string())),
        };
        let is_own = |placed: &Placed| placed.entry.about["user"] == caller.user.name.as_str();
        let placed = placed.filter(is_own);
        let placed = placed.ok_or_else(|| ApiError::not_found("session"))?;
        let outcome = if placed.entry.node == cluster.node.id() {
            let request = kept.request()?;
            let served = serve_owned(cluster, &session, placed.epoch, request, next.clone()).await;
            served.map_or_else(Gone::outcome, ForwardOutcome::Answered)
        } else {
            ask(cluster, &session, &placed, &caller, &mut kept).await?
        };
        let is_lost = matches!(
            outcome,
            ForwardOutcome::NotDelivered | ForwardOutcome::Unknown
        );
        match outcome {
            ForwardOutcome::Answered(response) => return Ok(response),
            ForwardOutcome::Moved => cluster.gateway.forget(&session),
            ForwardOutcome::Lost if kept.is_repeatable => cluster.gateway.forget(&session),
            ForwardOutcome::NotDelivered => {}
            ForwardOutcome::Unknown if kept.is_repeatable => {}
            ForwardOutcome::Unknown | ForwardOutcome::Lost => return Err(unknown()),
        }
        if Instant::now() >= deadline || !kept.is_whole() {
            return Err(unavailable("the session did not answer in time"));
        }
        if is_lost {
            cluster.gateway.check(&session, &placed).await;
        }
        tokio::time::sleep(FORWARD_RETRY_PAUSE).await;
    }
}

/// What came of a request to another node.
enum ForwardOutcome {
    Answered(Response),
    /// The node does not have the session, and has done nothing.
    Moved,
    /// The node lost the session while it did the request.
    Lost,
    /// The node did not get the request.
    NotDelivered,
    /// The node is silent or gone, and may have done the request.
    Unknown,
}

/// Sends a request to the owner, and looks after the owner while it is silent.
async fn ask(
    cluster: &Arc<Cluster>,
    session: &SessionId,
    placed: &Placed,
    caller: &Caller,
    kept: &mut KeptRequest,
) -> Result<ForwardOutcome, ApiError> {
    let Some(peer) = cluster.peers.find(&placed.entry.node).await? else {
        return Ok(ForwardOutcome::NotDelivered);
    };
    let mut request = forwarded(kept.request()?, &peer, caller)?;
    let epoch = HeaderValue::from(placed.epoch.0);
    request.headers_mut().insert(EPOCH_HEADER, epoch);
    let upgrade = kept.upgrade.take();
    let mut sent = std::pin::pin!(cluster.peers.client.request(request));
    let answered = loop {
        tokio::select! {
            answered = &mut sent => break answered,
            () = tokio::time::sleep(MAX_OWNER_SILENCE) => {
                if cluster.gateway.check(session, placed).await == NodeHealth::Gone {
                    return Ok(ForwardOutcome::Unknown);
                }
            }
        }
    };
    match answered {
        Ok(mut response) => {
            if let Some(gone) = Gone::of(&response) {
                return Ok(gone.outcome());
            }
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                join_upgrades(upgrade, hyper::upgrade::on(&mut response));
            }
            Ok(ForwardOutcome::Answered(
                response.map(Body::new).into_response(),
            ))
        }
        Err(error) if error.is_connect() => Ok(ForwardOutcome::NotDelivered),
        Err(_) => Ok(ForwardOutcome::Unknown),
    }
}

/// Passes on the bytes of a connection that became something else than HTTP: a WebSocket.
fn join_upgrades(ours: Option<hyper::upgrade::OnUpgrade>, theirs: hyper::upgrade::OnUpgrade) {
    let Some(ours) = ours else {
        return;
    };
    tokio::spawn(async move {
        if let (Ok(ours), Ok(theirs)) = tokio::join!(ours, theirs) {
            let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
            // Either side may go away at any time.
            let _ = tokio::io::copy_bidirectional(&mut ours, &mut theirs).await;
        }
    });
}

/// Opens a session on the node that has most room, of those that have its environment.
async fn open_somewhere(
    state: &AppState,
    cluster: &Arc<Cluster>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let caller = caller_of(&request)?;
    let mut kept = KeptRequest::new(request, "").await?;
    let nodes = cluster.peers.list().await?;
    // The hash of the choice needs a name. The node gives the session its own.
    let name = random_id("p")?;
    let name = session_id(&name)?;
    let mut wanted = Wanted {
        environment: kept.environment(state),
        ..Wanted::default()
    };
    while let Some(chosen) = choose(&name, &wanted, &nodes) {
        if chosen.node == cluster.node.id() {
            return Ok(next.run(kept.request()?).await);
        }
        let request = forwarded(kept.request()?, chosen, &caller)?;
        match cluster.peers.client.request(request).await {
            Ok(response) => return Ok(response.map(Body::new).into_response()),
            // A session that the lost node has opened all the same has no caller. It is in the list, and can be closed.
            Err(_) if kept.is_whole() => wanted.avoid.insert(chosen.node.clone()),
            Err(_) => return Err(unknown()),
        };
    }
    Err(unavailable("no node has room for a session"))
}

pub(super) fn caller_of(request: &Request) -> Result<Caller, ApiError> {
    let caller = request.extensions().get::<Caller>().cloned();
    caller.ok_or_else(|| ApiError::unauthenticated("this needs a login"))
}

fn unknown() -> ApiError {
    ApiError::new(
        StatusCode::BAD_GATEWAY,
        "outcome_unknown",
        "the node of the session was lost while it did this; it may have happened or not",
    )
    .hint("look at the session, then decide whether to send the request again")
}

/// A request as it goes to another node.
pub(super) fn forwarded(
    request: Request,
    peer: &NodeRecord,
    caller: &Caller,
) -> Result<hyper::Request<Body>, ApiError> {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let bad = |error: String| unavailable(&format!("the node {}: {error}", peer.node));
    let uri: Result<Uri, _> = format!("{}{path}", peer.address).parse();
    parts.uri = uri.map_err(|error| bad(error.to_string()))?;
    let value = |text: &str| HeaderValue::from_str(text).map_err(|error| bad(error.to_string()));
    let headers = &mut parts.headers;
    // Checked here; the other node has another name. Credentials stay on the node that they were shown to.
    for name in [HOST, ORIGIN, COOKIE, axum::http::header::AUTHORIZATION] {
        headers.remove(name);
    }
    headers.remove("x-api-key");
    headers.insert("x-cellblock", HeaderValue::from_static("1"));
    headers.insert(SECRET_HEADER, value(&peer.secret)?);
    headers.insert(USER_HEADER, value(&caller.user.name)?);
    parts.extensions = axum::http::Extensions::new();
    Ok(Request::from_parts(parts, body))
}

/// A request that is kept until it is answered.
pub(super) struct KeptRequest {
    parts: Parts,
    body: KeptBody,
    /// Whether the request may be done again although it may have been done.
    is_repeatable: bool,
    upgrade: Option<hyper::upgrade::OnUpgrade>,
}

enum KeptBody {
    Whole(Bytes),
    /// Too long to be kept. It can be sent once.
    Stream(Option<Body>),
}

impl KeptRequest {
    pub(super) async fn new(request: Request, id: &str) -> Result<KeptRequest, ApiError> {
        let (mut parts, body) = request.into_parts();
        let reads = matches!(parts.method, Method::GET | Method::HEAD);
        let is_cell = parts.uri.path() == format!("/v1/sessions/{id}/cells");
        if is_cell && !parts.headers.contains_key(KEY_HEADER) {
            let key = HeaderValue::from_str(&random_id("k")?);
            let key = key.map_err(|error| ApiError::internal(error.to_string()))?;
            parts.headers.insert(KEY_HEADER, key);
        }
        let length = body.size_hint().exact();
        let length = length.map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        let body = match length {
            Some(0) => KeptBody::Whole(Bytes::new()),
            Some(length) if length <= MAX_KEPT_BYTES => {
                let read = body.collect().await;
                let read = read.map_err(|error| ApiError::invalid(error.to_string()))?;
                KeptBody::Whole(read.to_bytes())
            }
            _ => KeptBody::Stream(Some(body)),
        };
        Ok(KeptRequest {
            upgrade: parts.extensions.get::<hyper::upgrade::OnUpgrade>().cloned(),
            parts,
            body,
            is_repeatable: reads || is_cell,
        })
    }

    /// Whether the request deletes everything of a session.
    fn is_forgetting(&self) -> bool {
        let mut query = self.parts.uri.query().unwrap_or_default().split('&');
        self.parts.method == Method::DELETE && query.any(|part| part == "forget=true")
    }

    /// The id of the environment that a request for a session names, as far as this node knows it.
    fn environment(&self, state: &AppState) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Asked {
            env: Option<String>,
        }
        let KeptBody::Whole(body) = &self.body else {
            return None;
        };
        let asked: Asked = serde_json::from_slice(body).ok()?;
        let host = state.host();
        let (packages, interpreter) = (host.packages(), &host.environment().interpreter);
        // The name of a file is for the node that opens the session, and for administrators.
        let wanted = packages
            .environments()
            .requirements_named(&asked.env?)
            .ok()?;
        match packages.environments().status(interpreter, &wanted) {
            EnvironmentStatus::Ready(found) => packages.environments().id_of(&found.python),
            _ => None,
        }
    }

    fn method(&self) -> &Method {
        &self.parts.method
    }

    /// Whether the request can be sent once more.
    pub(super) fn is_whole(&self) -> bool {
        !matches!(self.body, KeptBody::Stream(None))
    }

    /// The request, to be sent now.
    pub(super) fn request(&mut self) -> Result<Request, ApiError> {
        let body = match &mut self.body {
            KeptBody::Whole(bytes) => Body::from(bytes.clone()),
            KeptBody::Stream(body) => body.take().ok_or_else(unknown)?,
        };
        Ok(Request::from_parts(self.parts.clone(), body))
    }
}
