//! The numbers of a trace: where the time of a run went.

use crate::trace::{Record, Trace};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A model call that takes longer is listed as slow.
const SLOW_MODEL_CALL_MS: f64 = 10_000.0;
/// A cell that takes longer is listed as slow.
const SLOW_CELL_MS: f64 = 1_000.0;

/// The spans in which the model is asked: a call, and inside it the requests to an endpoint.
const MODEL_SPANS: &[&str] = &["model_call", "model_request"];

/// The summary of a trace: where the time of a run went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceReport {
    /// The time of the model, of code and of the rest.
    pub shares: TimeShares,
    /// The statistics of all spans, by their names.
    pub spans: Vec<SpanStatistics>,
    /// Calls that were made more than once with the same arguments.
    pub repeated: Vec<RepeatedCall>,
    /// Model calls over 10 s and cells over 1 s.
    pub slow: Vec<SlowSpan>,
    /// What changed in each version of the plan, in order.
    pub plans: Vec<String>,
}

/// How the time of a run divides, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TimeShares {
    /// The time from the beginning of the run to its end.
    #[serde(rename = "whole")]
    pub whole_ms: f64,
    /// The time in which the model was asked.
    #[serde(rename = "model")]
    pub model_ms: f64,
    /// The time in which code ran.
    #[serde(rename = "code")]
    pub code_ms: f64,
    /// All other time.
    #[serde(rename = "overhead")]
    pub overhead_ms: f64,
}

/// The statistics of all spans of one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpanStatistics {
    /// The name of the spans.
    pub name: String,
    /// The number of spans.
    pub count: usize,
    /// The mean duration in milliseconds.
    #[serde(rename = "mean")]
    pub mean_ms: f64,
    /// The shortest duration in milliseconds.
    #[serde(rename = "min")]
    pub min_ms: f64,
    /// The longest duration in milliseconds.
    #[serde(rename = "max")]
    pub max_ms: f64,
    /// The 95th percentile of the durations in milliseconds.
    #[serde(rename = "p95")]
    pub p95_ms: f64,
    /// The share of spans that failed, from 0 to 1.
    pub failure_rate: f64,
}

/// A call that was made more than once with the same arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RepeatedCall {
    /// The name of the span.
    pub name: String,
    /// What was called, with its arguments.
    pub call: String,
    /// The number of calls.
    pub times: usize,
}

/// A span that took long.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlowSpan {
    /// The name of the span.
    pub name: String,
    /// When the span began, in milliseconds from the beginning of the run.
    pub at_ms: f64,
    /// The duration of the span in milliseconds.
    pub ms: f64,
}

impl TraceReport {
    /// Sums up a trace.
    pub fn new(trace: &Trace) -> Self {
        let begin = trace.records().first().map_or(0.0, |record| record.at);
        Self {
            shares: shares(trace),
            spans: span_statistics(trace),
            repeated: repeated_calls(trace),
            slow: slow_spans(trace, begin),
            plans: plan_changes(trace),
        }
    }
}

fn shares(trace: &Trace) -> TimeShares {
    let times = |names: &[&str]| {
        let chosen = trace
            .spans()
            .filter(|span| names.is_empty() || names.contains(&span.name.as_str()));
        let times = chosen.map(|span| {
            (
                span.at * 1000.0,
                span.at * 1000.0 + span.ms.unwrap_or_default(),
            )
        });
        covered(times.collect())
    };
    let whole = match times(&["run"]) {
        0.0 => times(&[]),
        whole => whole,
    };
    TimeShares {
        whole_ms: whole,
        model_ms: times(MODEL_SPANS),
        code_ms: times(&["cell"]),
        overhead_ms: (whole - times(&[MODEL_SPANS, &["cell"]].concat())).max(0.0),
    }
}

fn span_statistics(trace: &Trace) -> Vec<SpanStatistics> {
    let mut by_name: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for span in trace.spans() {
        by_name.entry(&span.name).or_default().push(span);
    }
    let named = by_name.into_iter().map(|(name, spans)| {
        let times = statistics(spans.iter().filter_map(|span| span.ms).collect());
        let failed = spans.iter().filter(|span| span.is_failed()).count();
        SpanStatistics {
            name: name.to_owned(),
            count: spans.len(),
            mean_ms: times.mean,
            min_ms: times.min,
            max_ms: times.max,
            p95_ms: times.p95,
            failure_rate: failed as f64 / spans.len() as f64,
        }
    });
    named.collect()
}

fn repeated_calls(trace: &Trace) -> Vec<RepeatedCall> {
    let mut calls: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for span in trace.spans() {
        let parts = ["tool", "arguments", "code"].into_iter();
        let parts: Vec<_> = parts
            .filter_map(|field| span.fields.get(field))
            .map(as_text)
            .collect();
        if !parts.is_empty() {
            *calls.entry((&span.name, parts.join(" "))).or_default() += 1;
        }
    }
    let repeated = calls.into_iter().filter(|(_, times)| *times > 1);
    let repeated = repeated.map(|((name, call), times)| RepeatedCall {
        name: name.to_owned(),
        call,
        times,
    });
    repeated.collect()
}

fn slow_spans(trace: &Trace, begin: f64) -> Vec<SlowSpan> {
    let limit = |name: &str| match name {
        "model_call" => SLOW_MODEL_CALL_MS,
        "cell" => SLOW_CELL_MS,
        _ => f64::INFINITY,
    };
    let slow = trace.spans().filter_map(|span| {
        let ms = span.ms.filter(|ms| *ms > limit(&span.name))?;
        Some(SlowSpan {
            name: span.name.clone(),
            at_ms: (span.at - begin) * 1000.0,
            ms,
        })
    });
    slow.collect()
}

fn plan_changes(trace: &Trace) -> Vec<String> {
    let plans = trace
        .records()
        .iter()
        .filter(|record| !record.is_span() && record.name == "plan");
    let changes = plans.map(|plan| plan.fields.get("changes").map(as_text).unwrap_or_default());
    changes.collect()
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Mean, minimum, maximum and 95th percentile of some durations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Statistics {
    mean: f64,
    min: f64,
    max: f64,
    p95: f64,
}

fn statistics(mut values: Vec<f64>) -> Statistics {
    values.sort_by(f64::total_cmp);
    let (Some(&min), Some(&max)) = (values.first(), values.last()) else {
        return Statistics::default();
    };
    let rank = (values.len() as f64 * 0.95).ceil() as usize;
    Statistics {
        mean: values.iter().sum::<f64>() / values.len() as f64,
        min,
        max,
        p95: values[rank.clamp(1, values.len()) - 1],
    }
}

/// The time that these intervals cover together. Where they overlap, it counts once.
fn covered(mut intervals: Vec<(f64, f64)>) -> f64 {
    intervals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut sum = 0.0;
    let mut end = f64::NEG_INFINITY;
    for (from, to) in intervals {
        let from = from.max(end);
        if to > from {
            sum += to - from;
            end = to;
        }
    }
    sum
}
