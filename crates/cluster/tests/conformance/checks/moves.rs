//! Sessions that are to come from one node to another.

use super::{call, entry, new_node, new_session, start_nodes};
use crate::tokio_runtime;
use cellblock_cluster::Gateway;
use cellblock_cluster::engine::Engine;
use serde_json::{Value, json};

pub(crate) async fn a_session_that_its_node_does_not_have_can_be_taken(engine: Engine) {
    let (nodes, _) = start_nodes(&engine, 2).await;
    let gateway = Gateway::new(engine.clone(), tokio_runtime());
    // The node claimed it, and the engine failed before the node had it.
    let session = new_session();
    let claimed = entry(nodes[0].id().as_str());
    let epoch = engine.directory.claim(&session, None, &claimed).await;
    let placed = engine.directory.get(&session).await.unwrap().unwrap();
    assert_eq!(placed.epoch, epoch.unwrap());
    assert!(gateway.release(&session, &placed).await);
    let taken = nodes[1].take(&session, Some(placed.epoch), Value::Null);
    assert!(taken.await.unwrap() > placed.epoch);
    // So can one whose node is gone.
    let session = new_session();
    let claimed = entry(new_node().as_str());
    let epoch = engine.directory.claim(&session, None, &claimed).await;
    epoch.unwrap();
    let placed = engine.directory.get(&session).await.unwrap().unwrap();
    assert!(gateway.release(&session, &placed).await);
}

pub(crate) async fn a_session_that_its_node_has_is_let_go_of_first(engine: Engine) {
    let (nodes, _) = start_nodes(&engine, 1).await;
    let gateway = Gateway::new(engine.clone(), tokio_runtime());
    let session = new_session();
    assert_eq!(call(&gateway, &session, "a").await.result, json!(1));
    let placed = engine.directory.get(&session).await.unwrap().unwrap();
    assert_eq!(nodes[0].epoch_of(&session), Some(placed.epoch));
    assert!(!gateway.release(&session, &placed).await);
}
