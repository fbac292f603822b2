//! The layer that turns spans and events into records.

use crate::fields::Fields;
use crate::writer::Lines;
use crate::{Caps, Record, Secrets};
use serde_json::{Map, Value};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tracing::span::{Attributes, Id};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

/// Writes every span when it ends, and every event.
pub struct TraceLayer {
    pub(crate) lines: Lines,
    pub(crate) caps: Caps,
    pub(crate) secrets: Secrets,
}

/// What a span carries until it ends.
struct Open {
    at: f64,
    began: Instant,
    fields: Fields,
    run: Option<String>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TraceLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let own = fields.map.get("run").and_then(Value::as_str);
        let run = own.map(str::to_owned).or_else(|| run_of(span.parent()));
        span.extensions_mut().insert(Open {
            at: now(),
            began: Instant::now(),
            fields,
            run,
        });
    }

    fn on_record(&self, id: &Id, values: &tracing::span::Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
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
            at: now(),
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
        let Some(open) = span.extensions_mut().remove::<Open>() else {
            return;
        };
        let metadata = span.metadata();
        self.write(Record {
            at: open.at,
            name: metadata.name().to_owned(),
            ms: Some(open.began.elapsed().as_secs_f64() * 1000.0),
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
        record.name = self.caps.cut_text(&self.secrets.hide_in_text(&record.name));
        let fields = std::mem::take(&mut record.fields).into_iter();
        let fields: Map<_, _> = fields
            .map(|(name, value)| {
                let value = self.secrets.hide(&name, value);
                (name, value)
            })
            .collect();
        if let Value::Object(fields) = self.caps.cut(Value::Object(fields)) {
            record.fields = fields;
        }
        if let Ok(mut line) = serde_json::to_vec(&record) {
            line.push(b'\n');
            self.lines.send(line);
        }
    }
}

fn run_of<'a, S: LookupSpan<'a>>(span: Option<SpanRef<'a, S>>) -> Option<String> {
    let span = span?;
    let extensions = span.extensions();
    extensions.get::<Open>().and_then(|open| open.run.clone())
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

fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |time| time.as_secs_f64())
}
