//! One line of a trace.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A span that ended, or an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When it began or happened, in seconds since 1970.
    pub at: f64,
    /// The name of a span, or the message of an event.
    pub name: String,
    /// How long a span took, in milliseconds. An event has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<f64>,
    /// Of a span: which one of its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The span around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// The run that it belongs to: the field `run` of a span around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The process.
    pub pid: u32,
    /// `INFO`, `WARN` …
    pub level: String,
    /// The module.
    pub target: String,
    /// The rest.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
}

impl Record {
    /// Whether it is a span.
    pub fn is_span(&self) -> bool {
        self.ms.is_some()
    }

    /// A field as text.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field)?.as_str()
    }

    /// Whether it says of itself that it failed.
    pub fn failed(&self) -> bool {
        const GOOD: &[&str] = &["ok", "success", "answered"];
        let outcome = self.text("outcome");
        outcome.is_some_and(|outcome| !GOOD.contains(&outcome))
    }
}
