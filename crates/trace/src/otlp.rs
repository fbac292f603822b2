//! A trace in the words of OpenTelemetry: the JSON that an OTLP collector takes at `/v1/traces`.

use crate::{Record, Trace};
use serde_json::{Map, Value, json};
use std::hash::{DefaultHasher, Hasher as _};

impl Trace {
    /// The spans with their events. The id of the trace is made from the id of the run, so that what is sent twice is one trace.
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
        let of_this = |(other, event): &(usize, &Record)| {
            !event.is_span() && self.upwards(*other).nth(1) == Some(index)
        };
        let events: Vec<Value> = self
            .records()
            .iter()
            .enumerate()
            .filter(of_this)
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
            "status": {"code": if record.failed() { 2 } else { 0 }},
        });
        if let Some(parent) = self.upwards(index).nth(1) {
            span["parentSpanId"] = span_id_of(&self.records()[parent]).into();
        }
        span
    }
}

fn trace_id_of(run: &str) -> String {
    format!("{:016x}{:016x}", hash(&("run", run)), hash(&("trace", run)))
}

/// Numbers of spans are used again in a process, but not for one that begins at the same moment.
fn span_id_of(record: &Record) -> String {
    format!(
        "{:016x}",
        hash(&(record.pid, record.id, record.at.to_bits())).max(1)
    )
}

fn hash(value: &impl std::hash::Hash) -> u64 {
    // Without a random key: the same each time.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// As a text: JSON has no room for so many digits.
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
