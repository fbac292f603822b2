//! What a trace tells about a run.

use crate::statistics::{covered, summary};
use crate::{Record, Trace};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Above this a call of the model is flagged.
const SLOW_MODEL_MS: f64 = 10_000.0;
/// Above this a cell is flagged.
const SLOW_CELL_MS: f64 = 1_000.0;

/// A call of a model, and inside it, where there is an endpoint, its requests.
const MODEL: &[&str] = &["model_call", "model_request"];

/// The numbers of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Where the time went.
    pub shares: Shares,
    /// Each name of a span.
    pub spans: Vec<NamedSpans>,
    /// The same call more than once.
    pub repeated: Vec<Repeated>,
    /// What took long.
    pub slow: Vec<Slow>,
    /// The versions of the plan, in order.
    pub plans: Vec<String>,
}

/// Where the time of a run went, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Shares {
    /// From the beginning to the end.
    pub whole: f64,
    /// While the model was asked.
    pub model: f64,
    /// While code ran.
    pub code: f64,
    /// The rest.
    pub overhead: f64,
}

/// All spans of one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedSpans {
    /// The name.
    pub name: String,
    /// How many.
    pub count: usize,
    /// Milliseconds on average.
    pub mean: f64,
    /// The shortest.
    pub min: f64,
    /// The longest.
    pub max: f64,
    /// 95 of 100 were not longer.
    pub p95: f64,
    /// The part that failed, from 0 to 1.
    pub failure_rate: f64,
}

/// A call that was made more than once with the same arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Repeated {
    /// The name of the span.
    pub name: String,
    /// What was called, and with what.
    pub call: String,
    /// How often.
    pub times: usize,
}

/// Something that took long.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slow {
    /// The name of the span.
    pub name: String,
    /// When, in milliseconds from the beginning of the run.
    pub at_ms: f64,
    /// How long.
    pub ms: f64,
}

impl Report {
    /// Looks through a trace.
    pub fn of(trace: &Trace) -> Self {
        let begin = trace.records().first().map_or(0.0, |record| record.at);
        Self {
            shares: shares(trace),
            spans: named(trace),
            repeated: repeated(trace),
            slow: slow(trace, begin),
            plans: plans(trace),
        }
    }
}

fn shares(trace: &Trace) -> Shares {
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
    Shares {
        whole,
        model: times(MODEL),
        code: times(&["cell"]),
        overhead: (whole - times(&[MODEL, &["cell"]].concat())).max(0.0),
    }
}

fn named(trace: &Trace) -> Vec<NamedSpans> {
    let mut by_name: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for span in trace.spans() {
        by_name.entry(&span.name).or_default().push(span);
    }
    let named = by_name.into_iter().map(|(name, spans)| {
        let times = summary(spans.iter().filter_map(|span| span.ms).collect());
        let failed = spans.iter().filter(|span| span.failed()).count();
        NamedSpans {
            name: name.to_owned(),
            count: spans.len(),
            mean: times.mean,
            min: times.min,
            max: times.max,
            p95: times.p95,
            failure_rate: failed as f64 / spans.len() as f64,
        }
    });
    named.collect()
}

fn repeated(trace: &Trace) -> Vec<Repeated> {
    let mut calls: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for span in trace.spans() {
        let said = ["tool", "arguments", "code"].into_iter();
        let said: Vec<_> = said
            .filter_map(|field| span.fields.get(field))
            .map(plain)
            .collect();
        if !said.is_empty() {
            *calls.entry((&span.name, said.join(" "))).or_default() += 1;
        }
    }
    let repeated = calls.into_iter().filter(|(_, times)| *times > 1);
    let repeated = repeated.map(|((name, call), times)| Repeated {
        name: name.to_owned(),
        call,
        times,
    });
    repeated.collect()
}

fn slow(trace: &Trace, begin: f64) -> Vec<Slow> {
    let limit = |name: &str| match name {
        "model_call" => SLOW_MODEL_MS,
        "cell" => SLOW_CELL_MS,
        _ => f64::INFINITY,
    };
    let slow = trace.spans().filter_map(|span| {
        let ms = span.ms.filter(|ms| *ms > limit(&span.name))?;
        Some(Slow {
            name: span.name.clone(),
            at_ms: (span.at - begin) * 1000.0,
            ms,
        })
    });
    slow.collect()
}

fn plans(trace: &Trace) -> Vec<String> {
    let plans = trace
        .records()
        .iter()
        .filter(|record| !record.is_span() && record.name == "plan");
    let changes = plans.map(|plan| plan.fields.get("changes").map(plain).unwrap_or_default());
    changes.collect()
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
