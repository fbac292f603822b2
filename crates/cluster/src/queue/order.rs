//! Whose turn it is: fair shares among users, and how long a run waits.

use super::{OpenRun, RunId};
use serde::Serialize;
use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// How long a run waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// How many runs come before it.
    pub ahead: usize,
    /// About how many seconds that takes. `None`: no run has ended yet, so nothing is known.
    pub seconds: Option<u64>,
}

/// The runs that wait, with their places. Made once for each change of the queue.
#[derive(Debug, Default)]
pub(super) struct Order {
    ahead: HashMap<RunId, usize>,
    running: usize,
}

impl Order {
    pub(super) fn of(runs: &[Arc<OpenRun>]) -> Order {
        let order = fair_order(runs).into_iter().enumerate();
        Order {
            ahead: order.map(|(ahead, run)| (run.id.clone(), ahead)).collect(),
            running: runs.iter().filter(|run| run.node.is_some()).count(),
        }
    }

    pub(super) fn wait(&self, id: &RunId, slots: usize, mean: Option<Duration>) -> Option<Wait> {
        let ahead = *self.ahead.get(id)?;
        let free = slots.saturating_sub(self.running);
        let seconds = match (ahead < free, mean) {
            (true, _) => Some(0),
            (false, None) => None,
            (false, Some(mean)) => {
                let turns = (ahead - free) / slots.max(1) + 1;
                Some((mean.as_secs_f64() * turns as f64).ceil() as u64)
            }
        };
        Some(Wait { ahead, seconds })
    }
}

/// The runs that wait, in the order in which they are to be taken: the user with the fewest runs comes next, then the one that has waited
/// longest. So a user with a thousand runs delays another user by one run at most for each that goes on.
pub(super) fn fair_order<R: Borrow<OpenRun>>(runs: &[R]) -> Vec<&OpenRun> {
    let mut queues: BTreeMap<&str, Vec<&OpenRun>> = BTreeMap::new();
    let waiting = runs.iter().map(R::borrow).filter(|run| run.node.is_none());
    for run in waiting {
        queues.entry(&run.ticket.user).or_default().push(run);
    }
    let running = running_of_users(runs);
    let mut ranked = Vec::new();
    for (user, mut queue) in queues {
        let first = running.get(user).copied().unwrap_or(0);
        queue.sort_by_key(|run| {
            let ticket = &run.ticket;
            // A run that a lost node had goes on before a new one begins.
            let is_new = ticket.deliveries == 0;
            (is_new, std::cmp::Reverse(ticket.priority), ticket.asked_ms)
        });
        ranked.extend(
            queue
                .into_iter()
                .enumerate()
                .map(|(n, run)| (first + n, run)),
        );
    }
    ranked.sort_by_key(|(rank, run)| (*rank, run.ticket.asked_ms, run.epoch));
    ranked.into_iter().map(|(_, run)| run).collect()
}

pub(super) fn running_of_users<R: Borrow<OpenRun>>(runs: &[R]) -> HashMap<&str, usize> {
    let mut running = HashMap::new();
    let taken = runs.iter().map(R::borrow).filter(|run| run.node.is_some());
    for run in taken {
        *running.entry(run.ticket.user.as_str()).or_default() += 1;
    }
    running
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Epoch;
    use crate::names::NodeId;
    use crate::queue::RunTicket;

    fn run(user: &str, number: u64, node: Option<&str>) -> OpenRun {
        OpenRun {
            id: RunId::new(format!("{user}-{number}")).unwrap(),
            epoch: Epoch(number),
            node: node.map(|node| NodeId::new(node).unwrap()),
            ticket: RunTicket {
                user: user.to_owned(),
                asked_ms: number,
                ..RunTicket::default()
            },
        }
    }

    fn ids(runs: &[OpenRun]) -> Vec<&str> {
        fair_order(runs).iter().map(|run| run.id.as_str()).collect()
    }

    #[test]
    fn a_flooding_user_does_not_delay_another_one() {
        let mut runs: Vec<OpenRun> = (0..1000).map(|n| run("flood", n, None)).collect();
        runs.extend((1000..1003).map(|n| run("other", n, None)));
        let order = ids(&runs);
        assert_eq!(
            order[..5],
            ["flood-0", "other-1000", "flood-1", "other-1001", "flood-2"]
        );
        // The flood has two runs under way: the other user's first two come first.
        for flooding in &mut runs[..2] {
            flooding.node = Some(NodeId::new("n").unwrap());
        }
        assert_eq!(ids(&runs)[..3], ["other-1000", "other-1001", "flood-2"]);
    }

    #[test]
    fn priorities_count_among_the_runs_of_one_user() {
        let mut runs = vec![run("a", 1, None), run("a", 2, None), run("b", 3, None)];
        runs[1].ticket.priority = 5;
        assert_eq!(ids(&runs), ["a-2", "b-3", "a-1"]);
        // A run that was lost with its node goes on first.
        runs[0].ticket.deliveries = 1;
        assert_eq!(ids(&runs), ["a-1", "b-3", "a-2"]);
    }

    #[test]
    fn the_wait_is_told_in_runs_and_seconds() {
        let mut runs: Vec<OpenRun> = (0..6).map(|n| run("a", n, None)).collect();
        let mean = Some(Duration::from_secs(10));
        let wait = |runs: &[OpenRun], n: u64, mean| {
            let id = RunId::new(format!("a-{n}")).unwrap();
            let runs: Vec<_> = runs.iter().cloned().map(Arc::new).collect();
            let wait = Order::of(&runs).wait(&id, 2, mean);
            wait.map(|wait| (wait.ahead, wait.seconds))
        };
        assert_eq!(wait(&runs, 1, None), Some((1, Some(0))));
        assert_eq!(wait(&runs, 2, None), Some((2, None)));
        assert_eq!(wait(&runs, 2, mean), Some((2, Some(10))));
        assert_eq!(wait(&runs, 5, mean), Some((5, Some(20))));
        runs[0].node = Some(NodeId::new("n").unwrap());
        assert_eq!(wait(&runs, 0, mean), None);
    }
}
