//! Checks histories: whether what callers of a cluster saw is what sessions allow, whatever happened to nodes and messages.
//!
//! Each cell of a checked session appends its key to a list and returns the list's length. In the end the list is read. Then the list
//! alone tells which cells have happened, how often and in which order, and each answer must be the place of its key.

use crate::names::{NodeId, RequestKey, SessionId};
use std::collections::{BTreeMap, HashMap};

/// A cell that its caller got an answer for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// The session.
    pub session: SessionId,
    /// The cell's key.
    pub key: RequestKey,
    /// The length of the list that the cell returned.
    pub length: u64,
}

/// A cell that a node began to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The session.
    pub session: SessionId,
    /// The cell's key.
    pub key: RequestKey,
    /// The node.
    pub node: NodeId,
    /// Whether the engine held the node for alive at that moment.
    pub had_lease: bool,
}

/// Everything that is known about a run of a cluster.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Answers, in the order in which each session's caller got them. A cell that was sent twice may have two.
    pub acknowledged: Vec<Acknowledged>,
    /// Beginnings of cells, those of replays left out.
    pub started: Vec<Started>,
    /// The list of each session at the end.
    pub lists: BTreeMap<SessionId, Vec<RequestKey>>,
}

/// What is wrong with a history.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A cell was answered and is not in the list.
    Lost(SessionId, RequestKey),
    /// A cell is in the list more than once.
    Twice(SessionId, RequestKey),
    /// A cell stands behind one that was sent after it was answered.
    OutOfOrder(SessionId, RequestKey),
    /// A cell's answer is not its place.
    WrongAnswer(SessionId, RequestKey),
    /// A node began a cell while it had no lease.
    StartedWithoutLease(NodeId, RequestKey),
}

impl History {
    /// Finds everything that is wrong.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut places: HashMap<(&SessionId, &RequestKey), u64> = HashMap::new();
        for (session, list) in &self.lists {
            for (key, place) in list.iter().zip(1..) {
                if places.insert((session, key), place).is_some() {
                    faults.push(Fault::Twice(session.clone(), key.clone()));
                }
            }
        }
        let mut newest: HashMap<&SessionId, u64> = HashMap::new();
        for answer in &self.acknowledged {
            let (session, key) = (&answer.session, &answer.key);
            let Some(place) = places.get(&(session, key)).copied() else {
                faults.push(Fault::Lost(session.clone(), key.clone()));
                continue;
            };
            if place != answer.length {
                faults.push(Fault::WrongAnswer(session.clone(), key.clone()));
            }
            if newest
                .insert(session, place)
                .is_some_and(|before| before > place)
            {
                faults.push(Fault::OutOfOrder(session.clone(), key.clone()));
            }
        }
        for started in self.started.iter().filter(|started| !started.had_lease) {
            let fault = Fault::StartedWithoutLease(started.node.clone(), started.key.clone());
            faults.push(fault);
        }
        faults
    }

    /// How many cells began more than once. That is allowed, when a node was lost in the middle of one; only one of them has happened.
    pub fn restarted(&self) -> usize {
        let mut starts: HashMap<_, usize> = HashMap::new();
        for started in &self.started {
            *starts.entry((&started.session, &started.key)).or_default() += 1;
        }
        starts.values().filter(|count| **count > 1).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> SessionId {
        SessionId::new("s").unwrap()
    }

    fn key(text: &str) -> RequestKey {
        RequestKey::new(text).unwrap()
    }

    /// A history of one session whose caller got these answers, and whose list is this.
    fn history(answers: &[(&str, u64)], list: &[&str]) -> History {
        let acknowledged = |(text, length): &(&str, u64)| Acknowledged {
            session: session(),
            key: key(text),
            length: *length,
        };
        let list = list.iter().map(|text| key(text)).collect();
        History {
            acknowledged: answers.iter().map(acknowledged).collect(),
            started: Vec::new(),
            lists: [(session(), list)].into(),
        }
    }

    #[test]
    fn a_good_history_has_no_faults_and_may_hold_cells_without_an_answer() {
        let good = history(&[("a", 1), ("c", 3)], &["a", "b", "c"]);
        assert_eq!(good.faults(), []);
    }

    #[test]
    fn each_fault_is_found() {
        let lost = history(&[("a", 1)], &[]);
        assert_eq!(lost.faults(), [Fault::Lost(session(), key("a"))]);

        let twice = history(&[("a", 2)], &["a", "a"]);
        assert_eq!(twice.faults(), [Fault::Twice(session(), key("a"))]);

        let wrong = history(&[("a", 2)], &["a"]);
        assert_eq!(wrong.faults(), [Fault::WrongAnswer(session(), key("a"))]);

        let order = history(&[("b", 2), ("a", 1)], &["a", "b"]);
        assert_eq!(order.faults(), [Fault::OutOfOrder(session(), key("a"))]);

        let node = NodeId::new("n").unwrap();
        let mut lease = history(&[], &[]);
        lease.started.push(Started {
            session: session(),
            key: key("a"),
            node: node.clone(),
            had_lease: false,
        });
        let fault = Fault::StartedWithoutLease(node, key("a"));
        assert_eq!(lease.faults(), [fault]);
    }
}
