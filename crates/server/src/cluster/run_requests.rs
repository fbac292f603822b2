//! Requests for a run of the queue, which any node answers: by itself, from the journal, or by the node that has the run.

use super::forwarding::{KeptRequest, caller_of, forwarded};
use super::runs::EndedRun;
use super::{Cluster, Peer, unavailable};
use crate::error::ApiError;
use crate::state::AppState;
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use cellblock_cluster::{NodeId, RunId};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long the node of a run is looked for.
const FIND_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a run that waits is looked at for a reader of its events.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Answers a request for a run.
pub(crate) async fn to_runner(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let Some(cluster) = state.cluster() else {
        return next.run(request).await;
    };
    if request.extensions().get::<Peer>().is_some() {
        return next.run(request).await;
    }
    let path = request.uri().path().strip_prefix("/v1/runs/");
    let mut parts = path.unwrap_or_default().splitn(2, '/');
    let id = RunId::new(parts.next().unwrap_or_default());
    let wanted = RunQuestion::of(parts.next().unwrap_or_default());
    let Ok(id) = id else {
        return next.run(request).await;
    };
    let answered = answer(cluster, &id, wanted, request, next).await;
    answered.unwrap_or_else(|error| error.into_response())
}

/// What is asked about a run, as far as the answer depends on where the run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunQuestion {
    Description,
    Events,
    Record,
    Cancel,
    Other,
}

impl RunQuestion {
    fn of(rest: &str) -> RunQuestion {
        match rest {
            "" => RunQuestion::Description,
            "events" => RunQuestion::Events,
            "record" => RunQuestion::Record,
            "cancel" => RunQuestion::Cancel,
            _ => RunQuestion::Other,
        }
    }
}

async fn answer(
    cluster: &Arc<Cluster>,
    id: &RunId,
    wanted: RunQuestion,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let caller = caller_of(&request)?;
    let mut kept = KeptRequest::new(request, "").await?;
    let deadline = Instant::now() + FIND_TIMEOUT;
    // A run that was just taken is not there yet.
    let is_final = |status| status != StatusCode::NOT_FOUND || wanted == RunQuestion::Other;
    loop {
        let Some(run) = cluster.find_run(id).await? else {
            return match cluster.ended_run(id).await? {
                Some(ended) if ended.asked["user"] != caller.user.name.as_str() => {
                    Err(ApiError::not_found("run"))
                }
                // What is left in memory and in files is on the node where it ended. A run that never began left nothing there.
                Some(ended) if ended.node() == Some(cluster.node.id()) => {
                    let response = next.run(kept.request()?).await;
                    match is_final(response.status()) {
                        true => Ok(response),
                        false => from_journal(cluster, ended, wanted).await,
                    }
                }
                Some(ended) => from_journal(cluster, ended, wanted).await,
                None => Ok(next.run(kept.request()?).await),
            };
        };
        if run.ticket.user != caller.user.name {
            return Err(ApiError::not_found("run"));
        }
        match &run.node {
            Some(_) if cluster.holds_run(id) => {
                let response = next.clone().run(kept.request()?).await;
                if is_final(response.status()) {
                    return Ok(response);
                }
            }
            Some(node) => {
                if let Some(peer) = cluster.peers.find(node).await? {
                    let request = forwarded(kept.request()?, &peer, &caller)?;
                    if let Ok(response) = cluster.peers.client.request(request).await
                        && is_final(response.status())
                    {
                        return Ok(response.map(Body::new).into_response());
                    }
                }
            }
            None => {}
        }
        if wanted == RunQuestion::Cancel && cluster.cancel_waiting(&run).await? {
            return Ok(Json(json!({})).into_response());
        }
        match wanted {
            RunQuestion::Description => {
                return Ok(Json(cluster.describe_open(&run).await?).into_response());
            }
            // The stream begins when the run does.
            RunQuestion::Events if run.node.is_none() => {}
            RunQuestion::Record | RunQuestion::Other if run.node.is_none() => {
                return Err(ApiError::conflict("waiting", "the run has not begun"));
            }
            _ if Instant::now() >= deadline || !kept.is_whole() => {
                return Err(unavailable("the node of the run did not answer in time"));
            }
            _ => {}
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

impl EndedRun {
    /// The node on which the run ended.
    fn node(&self) -> Option<NodeId> {
        serde_json::from_value(self.end["node"].clone()).ok()
    }
}

/// What every node can say about a run that has ended elsewhere.
async fn from_journal(
    cluster: &Cluster,
    ended: EndedRun,
    wanted: RunQuestion,
) -> Result<Response, ApiError> {
    let EndedRun { events, end, .. } = ended;
    match wanted {
        RunQuestion::Description => Ok(Json(end["run"].clone()).into_response()),
        RunQuestion::Record => {
            let events = cluster.run_events(events).await?.into_iter();
            let events = events.filter_map(|mut event| match event["run_event"].take() {
                Value::Null => None,
                event => Some(json!({"at": null, "event": event})),
            });
            let events: Vec<Value> = events.collect();
            let record = json!({
                "run": end["run"], "events": events, "outcome": end["outcome"], "incomplete": null,
            });
            Ok(Json(record).into_response())
        }
        RunQuestion::Events => Err(ApiError::new(
            StatusCode::GONE,
            "events_gone",
            "the run has ended on another node",
        )
        .hint("read /record")),
        RunQuestion::Cancel | RunQuestion::Other => {
            Err(ApiError::conflict("ended", "the run has ended"))
        }
    }
}
