//! What a sandbox uses: memory, processors and disk.

use super::create::cpu_count;
use super::error::E2bError;
use super::sandbox::{Sandbox, lock};
use super::time::{rfc3339, unix};
use crate::auth::Caller;
use crate::http::Query;
use crate::state::AppState;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant, SystemTime};

/// The seconds between two values of E2B's own service.
const METRICS_INTERVAL: u64 = 5;
/// How many sandboxes can be asked about at once.
const MAX_ASKED: usize = 100;

/// The processor time of a sandbox at a moment. Two of them tell how busy it was in between.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessorSample {
    at: Instant,
    used: Duration,
}

impl ProcessorSample {
    /// The sample of a sandbox that begins now.
    pub(super) fn at_start() -> ProcessorSample {
        ProcessorSample {
            at: Instant::now(),
            used: Duration::ZERO,
        }
    }

    /// Percent of one processor that were used between an earlier sample and this one.
    fn percent_since(self, earlier: ProcessorSample) -> f64 {
        let elapsed = self.at.saturating_duration_since(earlier.at).as_secs_f64();
        // Processes that ended meanwhile are not counted any more.
        let used = self.used.saturating_sub(earlier.used).as_secs_f64();
        if elapsed > 0.0 {
            100.0 * used / elapsed
        } else {
            0.0
        }
    }
}

/// What a sandbox uses at a moment.
struct Metrics {
    at: SystemTime,
    processors_percent: f64,
    memory: u64,
    disk: u64,
}

impl Sandbox {
    /// Looks at the processes and files of the sandbox. The use of processors is that since the last look.
    async fn measure(&self) -> Result<Metrics, E2bError> {
        let session = &self.live.session;
        let using = session.resources().await?;
        let sample = ProcessorSample {
            at: Instant::now(),
            used: using.processor_time,
        };
        let earlier = std::mem::replace(&mut *lock(&self.processor_sample), sample);
        let files = session.list_files().await?;
        Ok(Metrics {
            at: SystemTime::now(),
            processors_percent: sample.percent_since(earlier),
            memory: using.memory,
            disk: files.iter().map(|file| file.bytes).sum(),
        })
    }

    async fn metrics_json(&self) -> Result<Value, E2bError> {
        let metrics = self.measure().await?;
        Ok(json!({
            "timestamp": rfc3339(metrics.at),
            "timestampUnix": unix(metrics.at),
            "cpuCount": cpu_count(),
            "cpuUsedPct": metrics.processors_percent,
            "memUsed": metrics.memory,
            "memTotal": self.live.memory,
            // Files that the kernel keeps in memory are not counted for a session.
            "memCache": 0,
            "diskUsed": metrics.disk,
            "diskTotal": self.disk,
        }))
    }
}

/// The times between which values are wanted, in seconds since 1970.
#[derive(Debug, Deserialize)]
pub(super) struct MetricsQuery {
    start: Option<u64>,
    end: Option<u64>,
}

impl MetricsQuery {
    /// Whether a value of now is wanted. Values of the past are not kept. A client sends the end of its range a moment before it is read.
    fn includes(&self, now: u64) -> bool {
        let is_begun = self.start.is_none_or(|start| start <= now);
        let is_over = self
            .end
            .is_some_and(|end| end.saturating_add(METRICS_INTERVAL) < now);
        is_begun && !is_over
    }
}

/// `GET /sandboxes/{id}/metrics`
pub(super) async fn metrics(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<MetricsQuery>,
) -> Result<Json<Value>, E2bError> {
    let sandbox = state.own_sandbox(&caller, &id)?;
    let mut values = Vec::new();
    if query.includes(unix(SystemTime::now())) {
        values.push(sandbox.metrics_json().await?);
    }
    Ok(Json(json!(values)))
}

#[derive(Debug, Deserialize)]
pub(super) struct ManyQuery {
    sandbox_ids: Option<String>,
}

/// `GET /sandboxes/metrics`
pub(super) async fn metrics_of_many(
    State(state): State<AppState>,
    caller: Caller,
    Query(query): Query<ManyQuery>,
) -> Result<Json<Value>, E2bError> {
    let mut found = Map::new();
    for id in query
        .sandbox_ids
        .unwrap_or_default()
        .split(',')
        .take(MAX_ASKED)
    {
        if let Ok(sandbox) = state.own_sandbox(&caller, id) {
            found.insert(sandbox.id.clone(), sandbox.metrics_json().await?);
        }
    }
    Ok(Json(json!({"sandboxes": found})))
}

/// `GET /metrics` of envd
pub(super) async fn metrics_inside(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Json<Value>, E2bError> {
    let sandbox = state.sandbox_of(&headers).await?;
    let metrics = sandbox.measure().await?;
    Ok(Json(json!({
        "ts": unix(metrics.at),
        "cpu_count": cpu_count(),
        "cpu_used_pct": metrics.processors_percent,
        "mem_total": sandbox.live.memory,
        "mem_used": metrics.memory,
        "disk_used": metrics.disk,
        "disk_total": sandbox.disk,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_now_is_in_ranges_that_hold_now_alone() {
        let includes = |start, end| MetricsQuery { start, end }.includes(1000);
        assert!(includes(None, None));
        assert!(includes(Some(1000), None));
        assert!(includes(Some(900), Some(999)));
        assert!(includes(None, Some(u64::MAX)));
        assert!(!includes(Some(1001), None));
        assert!(!includes(Some(900), Some(990)));
    }
}
