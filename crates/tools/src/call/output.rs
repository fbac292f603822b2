//! The result of a tool, and the answer to a call.

use crate::schema::schema_of_result;
use crate::{Failure, ToolError};
use bytes::Bytes;
use cellblock_protocol::Locale;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// The result of a tool: a JSON value for programs, parts for readers, or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// A JSON value. Code in a session gets it as a Python value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// Texts, pictures and documents, in order. Where there are none, readers get the JSON value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// One part of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A text.
    Text(String),
    /// A picture or a document. Code in a session gets a handle of it.
    Blob {
        /// The MIME type, such as `image/png`.
        mime: String,
        /// The content.
        #[serde(with = "as_base64")]
        data: Bytes,
        /// The URI, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uri: Option<String>,
    },
}

impl Output {
    /// A result that is a JSON value.
    pub fn json(value: impl Into<Value>) -> Output {
        Output {
            structured: Some(value.into()),
            parts: Vec::new(),
        }
    }

    /// A result that is a text.
    pub fn text(text: impl Into<String>) -> Output {
        Output {
            structured: None,
            parts: vec![Part::Text(text.into())],
        }
    }

    /// A result that is a picture or a document.
    pub fn blob(mime: impl Into<String>, data: impl Into<Bytes>) -> Output {
        Output {
            structured: None,
            parts: vec![Part::blob(mime, data)],
        }
    }

    /// The approximate size in bytes.
    pub fn size(&self) -> usize {
        let structured = self.structured.as_ref().map_or(0, json_size);
        structured + self.parts.iter().map(Part::size).sum::<usize>()
    }

    /// The result as text: its texts; where it has none, the JSON value; else a label for each other part.
    pub fn to_text(&self) -> String {
        let texts: Vec<&str> = self.parts.iter().filter_map(Part::as_text).collect();
        match &self.structured {
            _ if !texts.is_empty() => texts.join("\n"),
            Some(value) => value.to_string(),
            None => {
                let names: Vec<String> = self.parts.iter().map(Part::label).collect();
                names.join("\n")
            }
        }
    }
}

impl Part {
    /// A picture or a document without a URI.
    pub fn blob(mime: impl Into<String>, data: impl Into<Bytes>) -> Part {
        Part::Blob {
            mime: mime.into(),
            data: data.into(),
            uri: None,
        }
    }

    /// The text, if the part is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Part::Text(text) => Some(text),
            Part::Blob { .. } => None,
        }
    }

    /// A text that replaces a part where it cannot be shown: `[image/png, 1234 bytes]`.
    pub(crate) fn label(&self) -> String {
        match self {
            Part::Text(text) => text.clone(),
            Part::Blob { mime, data, .. } => format!("[{mime}, {} bytes]", data.len()),
        }
    }

    pub(crate) fn size(&self) -> usize {
        match self {
            Part::Text(text) => text.len(),
            Part::Blob { data, .. } => data.len(),
        }
    }
}

/// The answer to a call. Every call has one, whatever goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The id of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The result, or why there is none.
    pub outcome: Result<Output, Failure>,
    /// Notes for the model, for example that a person edited the call.
    pub notes: Vec<String>,
    /// How long the call took, with the time that a person needed to decide.
    pub took: Duration,
}

impl Answer {
    /// Whether the call has a result.
    pub fn is_ok(&self) -> bool {
        self.outcome.is_ok()
    }

    /// The text that a model reads, of about `max_chars` characters at most. Pictures and documents are in
    /// [`Answer::attachments`].
    pub fn for_model(&self, locale: Locale, max_chars: usize) -> String {
        let text = match &self.outcome {
            Ok(output) => shorten(output.to_text(), max_chars),
            // The answer of a person to the model is no failure of the tool.
            Err(failure @ Failure::Answered { .. }) => failure.message(locale),
            Err(failure) => match locale {
                Locale::En => format!("Tool call failed: {failure}"),
                Locale::Zh => {
                    format!("工具函数调用失败, 错误信息: {}", failure.message(locale))
                }
            },
        };
        let mut lines = self.notes.clone();
        lines.push(text);
        lines.join("\n")
    }

    /// The pictures and documents of the result, in order.
    pub fn attachments(&self) -> impl Iterator<Item = &Part> {
        let parts = self.outcome.as_ref().map(|output| output.parts.as_slice());
        parts
            .unwrap_or_default()
            .iter()
            .filter(|part| part.as_text().is_none())
    }
}

/// The beginning and the end of a text that is too long, with the number of characters that are left out.
fn shorten(text: String, max_chars: usize) -> String {
    if text.len() <= max_chars {
        return text;
    }
    let length = text.chars().count();
    if length <= max_chars {
        return text;
    }
    let half = max_chars / 2;
    let at = |index: usize| {
        text.char_indices()
            .nth(index)
            .map_or(text.len(), |(at, _)| at)
    };
    let left_out = length - 2 * half;
    format!(
        "{}\n[… {left_out} characters left out …]\n{}",
        &text[..at(half)],
        &text[at(length - half)..]
    )
}

/// A type that [`Tool::call`](crate::Tool::call) may return.
pub trait IntoOutput: Send {
    /// The schema of the JSON value; `None` for free text.
    fn schema() -> Option<Value> {
        None
    }

    /// Converts the value to the result of the call.
    fn into_output(self) -> Result<Output, ToolError>;
}

/// A type of your own as the result of a tool. The value is checked against the type's schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema + Send> IntoOutput for Json<T> {
    fn schema() -> Option<Value> {
        Some(schema_of_result::<T>())
    }

    fn into_output(self) -> Result<Output, ToolError> {
        Ok(Output::json(serde_json::to_value(self.0)?))
    }
}

impl IntoOutput for Output {
    fn into_output(self) -> Result<Output, ToolError> {
        Ok(self)
    }
}

impl IntoOutput for String {
    fn into_output(self) -> Result<Output, ToolError> {
        Ok(Output::text(self))
    }
}

impl IntoOutput for &'static str {
    fn into_output(self) -> Result<Output, ToolError> {
        Ok(Output::text(self))
    }
}

macro_rules! json_output {
    ($($kind:ty),*) => {$(
        impl IntoOutput for $kind {
            fn into_output(self) -> Result<Output, ToolError> {
                Ok(Output::json(serde_json::to_value(self)?))
            }
        }
    )*};
}

json_output!(Value, (), bool, i32, i64, u32, u64, usize, f32, f64);

/// The approximate length of the JSON text, without making it.
pub(crate) fn json_size(value: &Value) -> usize {
    match value {
        Value::Null => 4,
        Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| 1 + json_size(item)).sum::<usize>(),
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| key.len() + 4 + json_size(value);
            2 + map.iter().map(entry).sum::<usize>()
        }
    }
}

mod as_base64 {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use bytes::Bytes;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(data: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(data))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(from)?;
        let data = STANDARD.decode(text).map_err(serde::de::Error::custom)?;
        Ok(data.into())
    }
}
