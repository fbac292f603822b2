//! Counters for `/metrics`, in the text format of Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the server has counted since its start.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) requests: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) cells: AtomicU64,
    pub(crate) cell_microseconds: AtomicU64,
    pub(crate) cells_crashed: AtomicU64,
    pub(crate) sessions_opened: AtomicU64,
    pub(crate) sessions_rebuilt: AtomicU64,
    pub(crate) runs: AtomicU64,
}

/// What is counted at the moment of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauges {
    pub(crate) live_sessions: usize,
    pub(crate) running_runs: usize,
    pub(crate) event_readers: usize,
}

/// Writes one value, with what it is.
pub(crate) fn write_row(text: &mut String, kind: &str, name: &str, help: &str, value: f64) {
    let _ = writeln!(
        text,
        "# HELP cellblock_{name} {help}\n# TYPE cellblock_{name} {kind}\ncellblock_{name} {value}"
    );
}

impl Metrics {
    /// All values as text.
    pub(crate) fn render(&self, gauges: Gauges) -> String {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let rows = [
            (
                "counter",
                "http_requests_total",
                "Requests.",
                read(&self.requests),
            ),
            (
                "counter",
                "http_refused_total",
                "Requests that were refused (4xx).",
                read(&self.refused),
            ),
            (
                "counter",
                "http_failed_total",
                "Requests that failed (5xx).",
                read(&self.failed),
            ),
            (
                "counter",
                "cells_total",
                "Cells that ended.",
                read(&self.cells),
            ),
            (
                "counter",
                "cell_seconds_total",
                "The time of these cells.",
                read(&self.cell_microseconds) / 1e6,
            ),
            (
                "counter",
                "cells_crashed_total",
                "Cells whose process ended.",
                read(&self.cells_crashed),
            ),
            (
                "counter",
                "sessions_opened_total",
                "Sessions that were opened.",
                read(&self.sessions_opened),
            ),
            (
                "counter",
                "sessions_rebuilt_total",
                "Sessions that came back from their journals.",
                read(&self.sessions_rebuilt),
            ),
            (
                "counter",
                "runs_total",
                "Runs of the agent.",
                read(&self.runs),
            ),
            (
                "gauge",
                "sessions",
                "Sessions that live.",
                gauges.live_sessions as f64,
            ),
            (
                "gauge",
                "runs",
                "Runs that go on.",
                gauges.running_runs as f64,
            ),
            (
                "gauge",
                "event_readers",
                "Open streams of events.",
                gauges.event_readers as f64,
            ),
        ];
        let mut text = String::new();
        for (kind, name, help, value) in rows {
            write_row(&mut text, kind, name, help, value);
        }
        text
    }
}
