//! The choice of a node for a session. Each gateway makes it alone: there is no scheduler to lose.

use crate::engine::{Digest, NodeRecord, NodeState};
use crate::names::{NodeId, SessionId};
use std::collections::BTreeSet;

/// How many nodes the load decides between.
///
/// With one, load would not matter. With all, every gateway would send each new session to the same least loaded node until that node's
/// next heartbeat.
const CANDIDATE_COUNT: usize = 3;

/// A node with less free memory gets a session only if all nodes have less. 0 means that the node does not tell.
const MIN_FREE_MEMORY: u64 = 512 << 20;

/// What a session needs of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The environment of the session, by the id of its lock. The directory entry of a session names it as `environment`.
    pub environment: Option<String>,
    /// Nodes that refused the session just now.
    pub avoid: BTreeSet<NodeId>,
}

/// Chooses a node: among those that have the environment already and memory left, the least loaded of three by rendezvous hash. What
/// no node has decides nothing. `None` if no node has room.
pub fn choose<'a>(
    session: &SessionId,
    wanted: &Wanted,
    nodes: &'a [NodeRecord],
) -> Option<&'a NodeRecord> {
    let has_room = |node: &&NodeRecord| {
        node.state == NodeState::Ready
            && node.sessions < node.capacity
            && !wanted.avoid.contains(&node.node)
    };
    let mut candidates: Vec<_> = nodes.iter().filter(has_room).collect();
    if let Some(environment) = &wanted.environment {
        prefer(&mut candidates, |node| {
            node.environments.contains(environment)
        });
    }
    prefer(&mut candidates, |node| {
        node.free_memory == 0 || node.free_memory >= MIN_FREE_MEMORY
    });
    candidates.sort_by_cached_key(|node| Digest::of(format!("{session}/{}", node.node).as_bytes()));
    candidates.truncate(CANDIDATE_COUNT);
    // The first of several equals wins, so without load all gateways agree.
    candidates
        .into_iter()
        .min_by(|a, b| load(a).total_cmp(&load(b)))
}

/// Keeps the nodes that fit, if there is one.
fn prefer(candidates: &mut Vec<&NodeRecord>, fits: impl Fn(&NodeRecord) -> bool) {
    if candidates.iter().any(|node| fits(node)) {
        candidates.retain(|node| fits(node));
    }
}

/// The share of its places that is taken, and the share of its processors that is busy.
fn load(node: &NodeRecord) -> f64 {
    f64::from(node.sessions) / f64::from(node.capacity) + node.load.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Moves;
    use std::collections::BTreeMap;

    fn node(name: &str, sessions: u32) -> NodeRecord {
        NodeRecord {
            node: NodeId::new(name).unwrap(),
            state: NodeState::Ready,
            version: "1".into(),
            sessions,
            capacity: 100,
            free_memory: 0,
            environments: Vec::new(),
            walls: "full".into(),
            address: String::new(),
            secret: String::new(),
            load: 0.0,
            run_slots: 0,
            run_ms: 0,
            heartbeat_ms: 0,
            moves: Moves::default(),
            silent_ms: 0,
        }
    }

    fn chosen(session: &str, wanted: &Wanted, nodes: &[NodeRecord]) -> Option<String> {
        let session = SessionId::new(session).unwrap();
        choose(&session, wanted, nodes).map(|node| node.node.to_string())
    }

    #[test]
    fn without_load_sessions_spread_over_all_nodes() {
        let nodes = ["a", "b", "c", "d", "e"].map(|name| node(name, 0));
        let mut count = BTreeMap::new();
        for number in 0..500 {
            let name = chosen(&format!("s{number}"), &Wanted::default(), &nodes).unwrap();
            *count.entry(name).or_insert(0) += 1;
        }
        assert!(count.values().all(|sessions| *sessions > 50), "{count:?}");
        assert_eq!(count.len(), 5);
    }

    #[test]
    fn the_least_loaded_of_the_candidates_is_chosen() {
        let nodes = [node("a", 50), node("b", 10), node("c", 90)];
        assert_eq!(chosen("s", &Wanted::default(), &nodes).unwrap(), "b");
    }

    #[test]
    fn a_node_that_has_the_environment_comes_first_while_it_has_room() {
        let mut nodes = [node("a", 0), node("b", 90)];
        nodes[1].environments.push("lock".into());
        let wanted = Wanted {
            environment: Some("lock".into()),
            ..Wanted::default()
        };
        assert_eq!(chosen("s", &wanted, &nodes).unwrap(), "b");
        nodes[1].sessions = 100;
        assert_eq!(chosen("s", &wanted, &nodes).unwrap(), "a");
    }

    #[test]
    fn busy_processors_count_like_taken_places() {
        let mut nodes = [node("a", 10), node("b", 20)];
        assert_eq!(chosen("s", &Wanted::default(), &nodes).unwrap(), "a");
        nodes[0].load = 0.9;
        assert_eq!(chosen("s", &Wanted::default(), &nodes).unwrap(), "b");
    }

    #[test]
    fn a_node_with_little_memory_gets_a_session_only_if_all_have_little() {
        let mut nodes = [node("a", 0), node("b", 90)];
        nodes[0].free_memory = 100 << 20;
        nodes[1].free_memory = 8 << 30;
        assert_eq!(chosen("s", &Wanted::default(), &nodes).unwrap(), "b");
        nodes[1].free_memory = 200 << 20;
        assert_eq!(chosen("s", &Wanted::default(), &nodes).unwrap(), "a");
    }

    #[test]
    fn cordoned_and_avoided_nodes_get_nothing() {
        let mut nodes = [node("a", 0), node("b", 0)];
        nodes[0].state = NodeState::Cordoned;
        let mut wanted = Wanted::default();
        assert_eq!(chosen("s", &wanted, &nodes).unwrap(), "b");
        wanted.avoid.insert(nodes[1].node.clone());
        assert_eq!(chosen("s", &wanted, &nodes), None);
    }
}
