//! The nodes of a cluster, for administrators.

use super::Route;
use crate::auth::{Access, Caller, Scope};
use crate::cluster::Cluster;
use crate::error::ApiError;
use crate::http::JsonBody;
use crate::state::AppState;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use cellblock_cluster::NodeId;
use cellblock_cluster::engine::NodeState;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn routes() -> Vec<Route> {
    let admin = Access::Needs(Scope::Admin);
    vec![
        Route::new(
            Method::GET,
            "/v1/nodes",
            admin,
            "The nodes of the cluster, its sessions in numbers, and the runs of its queue",
            list,
        ),
        Route::new(
            Method::PATCH,
            "/v1/nodes/{node}",
            admin,
            "Let a node take sessions, take no new ones, or give all away",
            change,
        )
        .takes::<Change>(),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Change {
    /// `ready`, `cordoned` or `draining`.
    #[schemars(with = "String")]
    state: NodeState,
}

async fn list(State(state): State<AppState>) -> Result<Json<Value>, ApiError> {
    Ok(Json(json!(cluster(&state)?.overview().await?)))
}

async fn change(
    State(state): State<AppState>,
    caller: Caller,
    Path(node): Path<String>,
    JsonBody(change): JsonBody<Change>,
) -> Result<Json<Value>, ApiError> {
    let cluster = cluster(&state)?;
    let node = NodeId::new(&node).map_err(|_| ApiError::not_found("node"))?;
    cluster.set_node_state(&node, change.state).await?;
    let told = json!(change.state).as_str().map(str::to_owned);
    state
        .audit(caller.id(), "node.state", Some(node.as_str()), told)
        .await;
    Ok(Json(json!({"node": node, "state": change.state})))
}

fn cluster(state: &AppState) -> Result<&Arc<Cluster>, ApiError> {
    state.cluster().ok_or_else(|| {
        let message = "this server is alone: it is no node of a cluster";
        ApiError::new(StatusCode::NOT_FOUND, "no_cluster", message)
            .hint("its operator can start it with `cellblock serve --cluster`")
    })
}
