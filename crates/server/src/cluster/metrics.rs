//! What a node of a cluster counts, for `/metrics`.

use super::Cluster;
use crate::metrics::write_row;
use cellblock_cluster::engine::Moves;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper ends of the histogram of commits, in seconds.
const BUCKETS: [f64; 12] = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
];
/// How long the engine may take to say which nodes and runs there are. Without an answer these values are missing.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(1);

/// What this node has counted since its start.
#[derive(Debug, Default)]
pub(crate) struct ClusterMetrics {
    /// Sessions that this node rebuilt from the cluster's journal.
    pub(super) adopted: AtomicU64,
    /// Sessions that went to sleep here, or to another node.
    pub(super) left: AtomicU64,
    /// Records that were refused because another node has the session.
    pub(super) fenced: AtomicU64,
    commits: [AtomicU64; BUCKETS.len()],
    commit_count: AtomicU64,
    commit_microseconds: AtomicU64,
}

impl ClusterMetrics {
    /// Counts a record that is in the journal now, and the time that took.
    pub(super) fn note_commit(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        for (counter, end) in self.commits.iter().zip(BUCKETS) {
            if seconds <= end {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.commit_count.fetch_add(1, Ordering::Relaxed);
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.commit_microseconds
            .fetch_add(microseconds, Ordering::Relaxed);
    }

    /// The sessions that came and left.
    pub(super) fn moves(&self) -> Moves {
        Moves {
            adopted: self.adopted.load(Ordering::Relaxed),
            left: self.left.load(Ordering::Relaxed),
        }
    }

    fn render_commits(&self, text: &mut String) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let name = "cellblock_cluster_commit_seconds";
        let _ = writeln!(
            text,
            "# HELP {name} The time until a record of a session was in the journal.\n# TYPE {name} histogram"
        );
        for (counter, end) in self.commits.iter().zip(BUCKETS) {
            let _ = writeln!(text, "{name}_bucket{{le=\"{end}\"}} {}", read(counter));
        }
        let count = read(&self.commit_count);
        let sum = read(&self.commit_microseconds) as f64 / 1e6;
        let _ = writeln!(
            text,
            "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}"
        );
    }
}

impl Cluster {
    /// All values as text.
    pub(crate) async fn render_metrics(&self) -> String {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let metrics = &self.metrics;
        let mut rows = vec![
            (
                "gauge",
                "sessions_owned",
                "Sessions that this node owns.",
                self.node.sessions() as f64,
            ),
            (
                "gauge",
                "runs_held",
                "Runs of the queue that this node works on.",
                self.work.count() as f64,
            ),
            (
                "gauge",
                "has_lease",
                "1 while this node may start cells.",
                f64::from(u8::from(self.node.has_lease())),
            ),
            (
                "counter",
                "sessions_adopted_total",
                "Sessions that this node rebuilt from the journal of the cluster.",
                read(&metrics.adopted),
            ),
            (
                "counter",
                "sessions_left_total",
                "Sessions that this node let go of.",
                read(&metrics.left),
            ),
            (
                "counter",
                "records_fenced_total",
                "Records that were refused because another node has the session.",
                read(&metrics.fenced),
            ),
        ];
        let nodes = tokio::time::timeout(ENGINE_TIMEOUT, self.engine.members.list()).await;
        let runs = tokio::time::timeout(ENGINE_TIMEOUT, self.queue.open_runs()).await;
        let answers = matches!(nodes, Ok(Ok(_))) && matches!(runs, Ok(Ok(_)));
        let help = "1 if the engine answered within a second.";
        rows.push((
            "gauge",
            "engine_answers",
            help,
            f64::from(u8::from(answers)),
        ));
        if let Ok(Ok(nodes)) = nodes {
            let help = "Nodes whose lease has not lapsed.";
            rows.push(("gauge", "nodes", help, nodes.len() as f64));
        }
        if let Ok(Ok(runs)) = runs {
            let waiting = runs.iter().filter(|run| run.node.is_none()).count();
            let help = "Runs of the queue that wait for a node.";
            rows.push(("gauge", "runs_waiting", help, waiting as f64));
        }
        let mut text = String::new();
        for (kind, name, help, value) in rows {
            write_row(&mut text, kind, &format!("cluster_{name}"), help, value);
        }
        metrics.render_commits(&mut text);
        text
    }
}
