//! Sessions that come from one node to another, or are to come.

use super::{ANY_NODE, call, entry, key, new_node, new_session, start_nodes, surroundings};
use crate::tokio_runtime;
use cellblock_cluster::engine::Engine;
use cellblock_cluster::{Gateway, Owner, RunError};
use serde_json::{Value, json};

pub(crate) async fn a_session_moves_with_its_variables_and_the_old_owner_is_fenced(engine: Engine) {
    let (session, surroundings) = (new_session(), surroundings(&engine));
    let adopt = |seen| Owner::adopt(surroundings.clone(), &ANY_NODE, &session, seen, Value::Null);
    let mut old = adopt(None).await.unwrap();
    assert_eq!(old.run(&key("a"), &Value::Null).await, Ok(json!(1)));
    assert_eq!(old.run(&key("b"), &Value::Null).await, Ok(json!(2)));

    let mut new = adopt(Some(old.epoch())).await.unwrap();
    assert!(new.epoch() > old.epoch());
    assert_eq!(new.take_rebuilt().unwrap().cells, 2);
    assert_eq!(new.recorded(&key("a")), Some(&json!(1)));
    assert_eq!(
        old.run(&key("c"), &Value::Null).await,
        Err(RunError::Fenced)
    );
    assert_eq!(new.run(&key("c"), &Value::Null).await, Ok(json!(3)));
    assert_eq!(new.run(&key("a"), &Value::Null).await, Ok(json!(1)));
}

pub(crate) async fn a_drained_node_has_no_sessions_and_they_go_on_elsewhere(engine: Engine) {
    let (nodes, _) = start_nodes(&engine, 2).await;
    let gateway = Gateway::new(engine.clone(), tokio_runtime());
    let sessions: Vec<_> = (0..6).map(|_| new_session()).collect();
    for session in &sessions {
        assert_eq!(call(&gateway, session, "a").await.result, json!(1));
    }
    let drained = nodes.iter().max_by_key(|node| node.sessions()).unwrap();
    assert!(drained.sessions() > 0);
    drained.drain().await;
    assert_eq!(drained.sessions(), 0);
    for session in &sessions {
        assert_eq!(call(&gateway, session, "b").await.result, json!(2));
    }
    assert_eq!(drained.sessions(), 0);
}

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
