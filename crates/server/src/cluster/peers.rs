//! The other nodes: where they are, and how a node proves to another that it is one.

use crate::error::ApiError;
use crate::state::AppState;
use crate::store::User;
use axum::body::Body;
use axum::http::HeaderMap;
use cellblock_cluster::NodeId;
use cellblock_cluster::engine::{Engine, NodeRecord};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq as _;

/// The header with the secret of the node that is asked. A node learns the secrets of others from their heartbeats.
pub(super) const SECRET_HEADER: &str = "x-cellblock-peer";
/// The header with the name of the user that the first node has identified.
pub(super) const USER_HEADER: &str = "x-cellblock-user";

/// How old the list of nodes may be.
const MAX_AGE: Duration = Duration::from_secs(2);
/// How long a connection to another node may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Marks a request that another node sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer;

/// The other nodes.
pub(super) struct Peers {
    engine: Engine,
    secret: String,
    list: Mutex<Option<(Instant, Arc<Vec<NodeRecord>>)>>,
    pub(super) client: Client<HttpConnector, Body>,
}

impl Peers {
    pub(super) fn new(engine: Engine, secret: String) -> Peers {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        Peers {
            engine,
            secret,
            list: Mutex::default(),
            client: Client::builder(TokioExecutor::new()).build(connector),
        }
    }

    /// The nodes whose lease has not lapsed, as of two seconds ago at most.
    pub(super) async fn list(&self) -> Result<Arc<Vec<NodeRecord>>, ApiError> {
        if let Some(list) = self.recent() {
            return Ok(list);
        }
        let listed = self.engine.members.list().await;
        let listed = listed.map_err(|error| super::unavailable(&error.to_string()))?;
        let list = Arc::new(listed);
        *self.list.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now(), Arc::clone(&list)));
        Ok(list)
    }

    /// What a node said about itself. Asked again if the node is not in the list that is at hand.
    pub(super) async fn find(&self, node: &NodeId) -> Result<Option<NodeRecord>, ApiError> {
        let found = |list: &[NodeRecord]| list.iter().find(|record| record.node == *node).cloned();
        if let Some(record) = found(&self.list().await?) {
            return Ok(Some(record));
        }
        *self.list.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(found(&self.list().await?))
    }

    fn recent(&self) -> Option<Arc<Vec<NodeRecord>>> {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, list) = list.as_ref()?;
        (at.elapsed() < MAX_AGE).then(|| Arc::clone(list))
    }
}

/// The user of a request that another node sent. `None`: it comes from elsewhere.
pub(crate) async fn peer_user(
    state: &AppState,
    headers: &HeaderMap,
) -> Result<Option<User>, ApiError> {
    let (Some(cluster), Some(secret)) = (state.cluster(), headers.get(SECRET_HEADER)) else {
        return Ok(None);
    };
    let is_right = secret.as_bytes().ct_eq(cluster.peers.secret.as_bytes());
    if !bool::from(is_right) {
        return Err(ApiError::unauthenticated(
            "this is not the secret of this node",
        ));
    }
    let name = headers.get(USER_HEADER).and_then(|name| name.to_str().ok());
    let name = name.ok_or_else(|| ApiError::unauthenticated("the request names no user"))?;
    state.user_of_cluster(name).await.map(Some)
}
