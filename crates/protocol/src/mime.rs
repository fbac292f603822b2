use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing to show, in as many forms as its maker offers: a MIME type for each.
///
/// Text types hold a string, binary types a string of base64, JSON types (`application/json`,
/// `application/vnd.cellblock.table+json`) the structure itself. Sorted by type, so that two equal
/// bundles are always the same text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MimeBundle(BTreeMap<String, Value>);

impl MimeBundle {
    /// The type under which a DataFrame gives its rows: `{"columns": [...], "rows": [[...], ...]}`.
    pub const TABLE: &'static str = "application/vnd.cellblock.table+json";

    /// An empty bundle.
    pub fn new() -> Self {
        Self::default()
    }

    /// A bundle with one form; more can follow.
    pub fn with(mut self, mime: impl Into<String>, content: impl Into<Value>) -> Self {
        self.insert(mime, content);
        self
    }

    /// Adds a form, or replaces the one of the same type.
    pub fn insert(&mut self, mime: impl Into<String>, content: impl Into<Value>) {
        self.0.insert(mime.into(), content.into());
    }

    /// The form of this type.
    pub fn get(&self, mime: &str) -> Option<&Value> {
        self.0.get(mime)
    }

    /// The form of this type, where it is a string.
    pub fn text(&self, mime: &str) -> Option<&str> {
        self.get(mime)?.as_str()
    }

    /// The types on offer, sorted.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Each type with its content, sorted by type.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0
            .iter()
            .map(|(mime, content)| (mime.as_str(), content))
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many forms there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps only the forms for which `keep` says yes.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Value) -> bool) {
        self.0.retain(|mime, content| keep(mime, content));
    }
}

impl FromIterator<(String, Value)> for MimeBundle {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(forms: I) -> Self {
        Self(forms.into_iter().collect())
    }
}

/// A value without other forms has its `repr` as plain text: the guest does not send the same text twice.
pub(crate) fn add_plain_text(mime: &mut MimeBundle, repr: &str) {
    if mime.is_empty() {
        mime.insert("text/plain", repr);
    }
}
