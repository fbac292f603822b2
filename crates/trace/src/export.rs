//! The forms of a trace: text for a person, folded stacks for flame graphs, OTLP for a collector.

use crate::report::TraceReport;
use crate::trace::{Record, Trace};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher as _};

/// The lines of a timeline that are shown.
const MAX_TIMELINE_LINES: usize = 500;

impl Trace {
    /// The timeline as text: one line for each record, indented by the spans around it.
    pub fn timeline(&self) -> String {
        let begin = self.records().first().map_or(0.0, |record| record.at);
        let mut text = String::new();
        for (index, record) in self.records().iter().enumerate().take(MAX_TIMELINE_LINES) {
            let since = (record.at - begin) * 1000.0;
            let indent = "  ".repeat(self.with_ancestors(index).count() - 1);
            let took = record.ms.map(|ms| format!("  {}", milliseconds(ms)));
            let _ = writeln!(
                text,
                "{:>10}  {indent}{}{}{}",
                milliseconds(since),
                record.name,
                took.unwrap_or_default(),
                details(record)
            );
        }
        let more = self.records().len().saturating_sub(MAX_TIMELINE_LINES);
        if more > 0 {
            let _ = writeln!(text, "(and {more} more)");
        }
        text
    }
}

impl TraceReport {
    /// The report as text, in a few tables.
    pub fn to_text(&self) -> String {
        let shares = &self.shares;
        let part = |ms: f64| {
            let percent = if shares.whole_ms > 0.0 {
                ms / shares.whole_ms * 100.0
            } else {
                0.0
            };
            format!("{} ({percent:.0} %)", milliseconds(ms))
        };
        let mut text = format!(
            "{} in all: model {}, code {}, overhead {}\n\n",
            milliseconds(shares.whole_ms),
            part(shares.model_ms),
            part(shares.code_ms),
            part(shares.overhead_ms)
        );
        let _ = writeln!(
            text,
            "{:<14}{:>7}{:>12}{:>12}{:>12}{:>12}{:>9}",
            "span", "count", "mean", "min", "max", "p95", "failed"
        );
        for spans in &self.spans {
            let times = [spans.mean_ms, spans.min_ms, spans.max_ms, spans.p95_ms].map(milliseconds);
            let [mean, min, max, p95] = times;
            let failed = format!("{:.0} %", spans.failure_rate * 100.0);
            let name = single_line(&spans.name, 13);
            let count = spans.count;
            let _ = writeln!(
                text,
                "{name:<14}{count:>7}{mean:>12}{min:>12}{max:>12}{p95:>12}{failed:>9}"
            );
        }
        section(
            &mut text,
            "The same call more than once",
            &self.repeated,
            |repeated| {
                format!(
                    "{} × {} {}",
                    repeated.times,
                    repeated.name,
                    single_line(&repeated.call, 80)
                )
            },
        );
        section(&mut text, "Slow", &self.slow, |slow| {
            let (at, ms) = (milliseconds(slow.at_ms), milliseconds(slow.ms));
            format!("{} at {at} took {ms}", slow.name)
        });
        let plans: Vec<_> = self.plans.iter().enumerate().collect();
        section(
            &mut text,
            "Versions of the plan",
            &plans,
            |(number, changes)| format!("{}. {}", number + 1, single_line(changes, 100)),
        );
        text
    }
}

fn section<T>(text: &mut String, title: &str, items: &[T], show: impl Fn(&T) -> String) {
    if items.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}:");
    for item in items {
        let _ = writeln!(text, "  {}", show(item));
    }
}

fn details(record: &Record) -> String {
    let mut text = String::new();
    let fields = record.fields.iter().filter(|(name, _)| *name != "run");
    // Sorted, because the order of a JSON map depends on the features of the JSON library.
    for (name, value) in fields.collect::<BTreeMap<_, _>>() {
        let value = match value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let _ = write!(text, "  {name}={}", single_line(&value, 60));
    }
    text
}

/// The beginning of a text on one line, without control characters.
fn single_line(text: &str, max_chars: usize) -> String {
    let one_line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let cut: String = one_line.clone().take(max_chars).collect();
    if one_line.count() > max_chars {
        cut + "…"
    } else {
        cut
    }
}

fn milliseconds(ms: f64) -> String {
    if ms >= 10_000.0 {
        format!("{:.1} s", ms / 1000.0)
    } else {
        format!("{ms:.1} ms")
    }
}

impl Trace {
    /// Folded stacks, which programs for flame graphs read: `run;step;cell 1234`, in microseconds. Each line has the time that was
    /// spent in a span itself, without the spans inside it.
    pub fn folded(&self) -> String {
        let mut stacks: BTreeMap<String, f64> = BTreeMap::new();
        for (index, record) in self.records().iter().enumerate() {
            let Some(time) = record.ms else { continue };
            *stacks.entry(self.stack(index)).or_default() += time;
            if let Some(parent) = self.with_ancestors(index).nth(1) {
                *stacks.entry(self.stack(parent)).or_default() -= time;
            }
        }
        let lines = stacks.into_iter().map(|(stack, ms)| {
            // Spans that ran at the same time may take longer together than the span around them.
            let microseconds = (ms.max(0.0) * 1000.0).round();
            format!("{stack} {microseconds}\n")
        });
        lines.collect()
    }

    fn stack(&self, index: usize) -> String {
        let frames = self
            .with_ancestors(index)
            .map(|index| frame(&self.records()[index]));
        let mut names: Vec<_> = frames.collect();
        names.reverse();
        names.join(";")
    }
}

fn frame(span: &Record) -> String {
    let tool = span.text_field("tool").map(|tool| format!(":{tool}"));
    let name = format!("{}{}", span.name, tool.unwrap_or_default());
    name.replace([';', ' ', '\n'], "_")
}

impl Trace {
    /// The spans with their events as OpenTelemetry's JSON, which an OTLP collector takes at `/v1/traces`. The id of the trace is made
    /// from the id of the run, so that a run that is sent twice is one trace.
    pub fn otlp(&self) -> Value {
        let trace_id = self
            .records()
            .iter()
            .find_map(|record| record.run.as_deref());
        let trace_id = trace_id.map(trace_id_of).unwrap_or_default();
        let records = self.records().iter().enumerate();
        let spans: Vec<Value> = records
            .filter(|(_, record)| record.is_span())
            .map(|(index, record)| self.span(index, record, &trace_id))
            .collect();
        let scope = json!({"name": "cellblock", "version": env!("CARGO_PKG_VERSION")});
        let resource = json!({"attributes": [attribute("service.name", &json!("cellblock"))]});
        json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]})
    }

    fn span(&self, index: usize, record: &Record, trace_id: &str) -> Value {
        let end = record.at + record.ms.unwrap_or(0.0) / 1e3;
        let is_inside = |(other, event): &(usize, &Record)| {
            !event.is_span() && self.with_ancestors(*other).nth(1) == Some(index)
        };
        let events: Vec<Value> = self
            .records()
            .iter()
            .enumerate()
            .filter(is_inside)
            .map(|(_, event)| json!({"timeUnixNano": nanoseconds(event.at), "name": event.name, "attributes": attributes(&event.fields)}))
            .collect();
        let mut span = json!({
            "traceId": trace_id,
            "spanId": span_id_of(record),
            "name": record.name,
            "kind": 1,
            "startTimeUnixNano": nanoseconds(record.at),
            "endTimeUnixNano": nanoseconds(end),
            "attributes": attributes(&record.fields),
            "events": events,
            "status": {"code": if record.is_failed() { 2 } else { 0 }},
        });
        if let Some(parent) = self.with_ancestors(index).nth(1) {
            span["parentSpanId"] = span_id_of(&self.records()[parent]).into();
        }
        span
    }
}

fn trace_id_of(run: &str) -> String {
    format!("{:016x}{:016x}", hash(&("run", run)), hash(&("trace", run)))
}

/// The id of a span for OTLP. A process uses the ids of spans again, but not for two that begin at the same moment.
fn span_id_of(record: &Record) -> String {
    format!(
        "{:016x}",
        hash(&(record.pid, record.id, record.at.to_bits())).max(1)
    )
}

fn hash(value: &impl std::hash::Hash) -> u64 {
    // Without a random key, so that a span has the same id each time.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Nanoseconds as a text, because a JSON number cannot hold so many digits.
fn nanoseconds(seconds: f64) -> String {
    format!("{}", (seconds * 1e9) as u64)
}

fn attributes(fields: &Map<String, Value>) -> Vec<Value> {
    fields
        .iter()
        .map(|(name, value)| attribute(name, value))
        .collect()
}

fn attribute(name: &str, value: &Value) -> Value {
    let value = match value {
        Value::Bool(value) => json!({"boolValue": value}),
        Value::Number(number) => match number.as_i64() {
            Some(number) => json!({"intValue": number.to_string()}),
            None => json!({"doubleValue": number}),
        },
        Value::String(text) => json!({"stringValue": text}),
        other => json!({"stringValue": other.to_string()}),
    };
    json!({"key": name, "value": value})
}
