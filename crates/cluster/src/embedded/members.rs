//! The nodes of one process: a map with leases.

use crate::engine::{EngineError, Members, NodeRecord, note_silence};
use crate::lock::lock;
use crate::names::NodeId;
use crate::runtime::{BoxFuture, Runtime};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The leases of nodes in this process.
pub(super) struct LocalMembers {
    runtime: Arc<dyn Runtime>,
    lease: Duration,
    nodes: Mutex<BTreeMap<NodeId, (NodeRecord, Duration)>>,
}

impl LocalMembers {
    pub(super) fn new(runtime: Arc<dyn Runtime>, lease: Duration) -> LocalMembers {
        LocalMembers {
            runtime,
            lease,
            nodes: Mutex::default(),
        }
    }
}

impl Members for LocalMembers {
    fn renew<'a>(&'a self, record: &'a NodeRecord) -> BoxFuture<'a, Result<Duration, EngineError>> {
        Box::pin(async move {
            let until = self.runtime.now() + self.lease;
            let node = record.node.clone();
            lock(&self.nodes).insert(node, (record.clone(), until));
            Ok(self.lease)
        })
    }

    fn leave<'a>(&'a self, node: &'a NodeId) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(async move {
            lock(&self.nodes).remove(node);
            Ok(())
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<NodeRecord>, EngineError>> {
        Box::pin(async move {
            let now = self.runtime.now();
            let mut nodes = lock(&self.nodes);
            nodes.retain(|_, (_, until)| now < *until);
            let heard = |until: &Duration| u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
            let nodes = nodes.values();
            let nodes = nodes.map(|(record, until)| (record.clone(), heard(until)));
            Ok(note_silence(nodes.collect()))
        })
    }
}
