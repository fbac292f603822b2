//! The layer that turns spans and events into lines of a trace.

use crate::secrets::SecretFilter;
use crate::trace::Record;
use crate::writer::LineQueue;
use cellblock_records::seconds_since_1970;
use serde_json::{Map, Value};
use std::fmt;
use std::time::Instant;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

/// A layer for a `tracing` subscriber that writes each span when it ends, and each event.
///
/// [`TraceWriter::layer`](crate::TraceWriter::layer) makes one.
pub struct TraceLayer {
    pub(crate) queue: LineQueue,
    pub(crate) limits: ValueLimits,
    pub(crate) secrets: SecretFilter,
}

/// How much of each value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueLimits {
    /// The characters of a text.
    pub max_chars: usize,
    /// The fields of an object, a span or an event.
    pub max_fields: usize,
    /// The items of a list.
    pub max_items: usize,
}

/// The deepest nesting of a value that is written.
const MAX_DEPTH: usize = 8;

/// What is kept of a span until it ends.
struct OpenSpan {
    at: f64,
    started: Instant,
    fields: Fields,
    /// The field `run` of the span itself or of a span around it.
    run: Option<String>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TraceLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let own = fields.map.get("run").and_then(Value::as_str);
        let run = own.map(str::to_owned).or_else(|| run_of(span.parent()));
        span.extensions_mut().insert(OpenSpan {
            at: seconds_since_1970(),
            started: Instant::now(),
            fields,
            run,
        });
    }

    fn on_record(&self, id: &Id, values: &tracing::span::Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            values.record(&mut open.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let parent = context.event_span(event);
        let metadata = event.metadata();
        let message = fields.message.take();
        self.write(Record {
            at: seconds_since_1970(),
            name: message.unwrap_or_else(|| metadata.name().to_owned()),
            ms: None,
            id: None,
            parent: parent.as_ref().map(|span| span.id().into_u64()),
            run: run_of(parent),
            fields: fields.map,
            ..empty(metadata)
        });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else {
            return;
        };
        let Some(open) = span.extensions_mut().remove::<OpenSpan>() else {
            return;
        };
        let metadata = span.metadata();
        self.write(Record {
            at: open.at,
            name: metadata.name().to_owned(),
            ms: Some(open.started.elapsed().as_secs_f64() * 1000.0),
            id: Some(id.into_u64()),
            parent: span.parent().map(|parent| parent.id().into_u64()),
            run: open.run,
            fields: open.fields.map,
            ..empty(metadata)
        });
    }
}

impl TraceLayer {
    fn write(&self, mut record: Record) {
        let name = self.secrets.redact_text(&record.name);
        record.name = self.limits.cut_text(&name);
        let fields = std::mem::take(&mut record.fields).into_iter();
        let fields: Map<_, _> = fields
            .map(|(name, value)| {
                let value = self.secrets.redact_field(&name, value);
                (name, value)
            })
            .collect();
        if let Value::Object(fields) = self.limits.cut(Value::Object(fields)) {
            record.fields = fields;
        }
        if let Ok(mut line) = serde_json::to_vec(&record) {
            line.push(b'\n');
            self.queue.send(line);
        }
    }
}

fn run_of<'a, S: LookupSpan<'a>>(span: Option<SpanRef<'a, S>>) -> Option<String> {
    let span = span?;
    let extensions = span.extensions();
    extensions
        .get::<OpenSpan>()
        .and_then(|open| open.run.clone())
}

fn empty(metadata: &Metadata<'_>) -> Record {
    Record {
        at: 0.0,
        name: String::new(),
        ms: None,
        id: None,
        parent: None,
        run: None,
        pid: std::process::id(),
        level: metadata.level().to_string(),
        target: metadata.target().to_owned(),
        fields: Map::new(),
    }
}

impl Default for ValueLimits {
    fn default() -> Self {
        Self {
            max_chars: 500,
            max_fields: 10,
            max_items: 20,
        }
    }
}

impl ValueLimits {
    /// Cuts a value to these limits. A note such as `… (3 more items)` stands in place of what was left out.
    pub fn cut(&self, value: Value) -> Value {
        self.cut_to_depth(value, MAX_DEPTH)
    }

    /// Cuts a text to these limits.
    pub fn cut_text(&self, text: &str) -> String {
        let Some((end, _)) = text.char_indices().nth(self.max_chars) else {
            return text.to_owned();
        };
        let left_out = text[end..].chars().count();
        format!("{}… ({left_out} more characters)", &text[..end])
    }

    fn cut_to_depth(&self, value: Value, depth: usize) -> Value {
        match value {
            Value::String(text) => Value::String(self.cut_text(&text)),
            Value::Array(_) | Value::Object(_) if depth == 0 => Value::String("…".into()),
            Value::Array(items) => {
                let more = items.len().saturating_sub(self.max_items);
                let kept = items.into_iter().take(self.max_items);
                let mut kept: Vec<_> = kept
                    .map(|item| self.cut_to_depth(item, depth - 1))
                    .collect();
                if more > 0 {
                    kept.push(Value::String(format!("… ({more} more items)")));
                }
                Value::Array(kept)
            }
            Value::Object(map) => {
                let more = map.len().saturating_sub(self.max_fields);
                let kept = map.into_iter().take(self.max_fields);
                let mut kept: Map<_, _> = kept
                    .map(|(key, item)| (self.cut_text(&key), self.cut_to_depth(item, depth - 1)))
                    .collect();
                if more > 0 {
                    kept.insert("…".into(), Value::String(format!("{more} more fields")));
                }
                Value::Object(kept)
            }
            other => other,
        }
    }
}

/// The fields of a span or an event as JSON. The message of an event is kept apart.
#[derive(Clone, Debug, Default)]
struct Fields {
    message: Option<String>,
    map: Map<String, Value>,
}

impl Fields {
    fn insert(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = Some(text),
            (name, value) => {
                self.map.insert(name.to_owned(), value);
            }
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field, Value::String(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, Value::String(value.to_owned()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value.into());
    }
}
