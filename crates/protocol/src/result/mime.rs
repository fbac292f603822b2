//! Displays of a cell, by MIME type.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::json::text::JsonText;

/// One thing to show, in as many forms as its maker offers: a MIME type for each.
///
/// Text types hold a string, binary types a string of base64, JSON types (`application/json`,
/// `application/vnd.cellblock.table+json`) the structure itself. Sorted by type, so that two equal
/// bundles are always the same text. Cloning copies no contents.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MimeBundle(BTreeMap<String, MimeContent>);

/// One form of a thing to show.
///
/// Code in a session decides what is in it, so a structure is kept as JSON text until
/// [`to_value`](Self::to_value) parses it: parsed, it can take fifty times as much memory. Cloning copies no contents.
#[derive(Debug, Clone, PartialEq)]
pub struct MimeContent(ContentForm);

#[derive(Debug, Clone, PartialEq)]
enum ContentForm {
    Text(Arc<String>),
    Structure(JsonText),
}

impl MimeBundle {
    /// The type under which a DataFrame gives its rows: `{"columns": [...], "rows": [[...], ...]}`.
    pub const TABLE: &'static str = "application/vnd.cellblock.table+json";

    /// An empty bundle.
    pub fn new() -> Self {
        Self::default()
    }

    /// A bundle with one form; more can follow.
    pub fn with(mut self, mime: impl Into<String>, content: impl Into<MimeContent>) -> Self {
        self.insert(mime, content);
        self
    }

    /// Adds a form, or replaces the one of the same type.
    pub fn insert(&mut self, mime: impl Into<String>, content: impl Into<MimeContent>) {
        self.0.insert(mime.into(), content.into());
    }

    /// The form of this type, parsed anew each time. For a string, [`text`](Self::text) copies nothing.
    pub fn get(&self, mime: &str) -> Option<Value> {
        self.0.get(mime).map(MimeContent::to_value)
    }

    /// The form of this type, where it is a string.
    pub fn text(&self, mime: &str) -> Option<&str> {
        self.0.get(mime)?.as_str()
    }

    /// The types on offer, sorted.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Each type with its content, sorted by type.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &MimeContent)> {
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

    /// About how many bytes of memory the bundle takes.
    pub fn bytes(&self) -> usize {
        /// The bytes that an entry takes beside its texts.
        const ENTRY: usize = 128;
        self.iter()
            .map(|(mime, content)| ENTRY + mime.len() + content.bytes())
            .sum()
    }

    /// Keeps only the forms for which `keep` says yes.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &MimeContent) -> bool) {
        self.0.retain(|mime, content| keep(mime, content));
    }
}

impl MimeContent {
    /// The string, where the content is one.
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            ContentForm::Text(text) => Some(text),
            ContentForm::Structure(_) => None,
        }
    }

    /// The string or the structure. Parses a structure each time.
    pub fn to_value(&self) -> Value {
        match &self.0 {
            ContentForm::Text(text) => Value::String(text.as_ref().clone()),
            ContentForm::Structure(json) => json.parse(),
        }
    }

    /// How many bytes the string has, or the structure as JSON text.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            ContentForm::Text(text) => text.len(),
            ContentForm::Structure(json) => json.as_str().len(),
        }
    }

    /// About how many bytes of memory [`to_value`](Self::to_value) takes. Code decides what a structure is: three bytes of its JSON can
    /// become a hundred.
    pub fn memory_when_parsed(&self) -> usize {
        match &self.0 {
            ContentForm::Text(text) => text.len(),
            ContentForm::Structure(json) => json.memory_when_parsed(),
        }
    }
}

impl From<&str> for MimeContent {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<String> for MimeContent {
    fn from(mut text: String) -> Self {
        text.shrink_to_fit();
        Self(ContentForm::Text(Arc::new(text)))
    }
}

impl From<Value> for MimeContent {
    fn from(value: Value) -> Self {
        match value {
            Value::String(text) => text.into(),
            structure => Self(ContentForm::Structure((&structure).into())),
        }
    }
}

impl Serialize for MimeContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            ContentForm::Text(text) => serializer.serialize_str(text),
            ContentForm::Structure(json) => json.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for MimeContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Into::into)
    }
}

impl<C: Into<MimeContent>> FromIterator<(String, C)> for MimeBundle {
    fn from_iter<I: IntoIterator<Item = (String, C)>>(forms: I) -> Self {
        let forms = forms.into_iter();
        Self(
            forms
                .map(|(mime, content)| (mime, content.into()))
                .collect(),
        )
    }
}

/// A value without other forms has its `repr` as plain text: the guest does not send the same text twice.
pub(crate) fn add_plain_text(mime: &mut MimeBundle, repr: &str) {
    if mime.is_empty() {
        mime.insert("text/plain", repr);
    }
}
