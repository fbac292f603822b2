//! What a tool gives back.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ToolError;
use crate::schema::schema_of_result;

/// The result of a call: a structure for programs, pieces for readers, or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// A structure. Code in a session gets it as a Python value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// Texts, pictures and documents, in order. Where there are none, readers get the structure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// One piece of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A text.
    Text(String),
    /// Anything else: a picture, a document. Code in a session gets a handle of it.
    Blob {
        /// What it is, such as `image/png`.
        mime: String,
        /// Its contents.
        #[serde(with = "as_base64")]
        data: Bytes,
        /// Its address, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uri: Option<String>,
    },
}

impl Output {
    /// A structure.
    pub fn json(value: impl Into<Value>) -> Output {
        Output {
            structured: Some(value.into()),
            parts: Vec::new(),
        }
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Output {
        Output {
            structured: None,
            parts: vec![Part::Text(text.into())],
        }
    }

    /// One picture or document.
    pub fn blob(mime: impl Into<String>, data: impl Into<Bytes>) -> Output {
        Output {
            structured: None,
            parts: vec![Part::blob(mime, data)],
        }
    }

    /// About how many bytes it takes.
    pub fn size(&self) -> usize {
        let structured = self.structured.as_ref().map_or(0, json_size);
        structured + self.parts.iter().map(Part::size).sum::<usize>()
    }

    /// What a reader of text gets: the texts; where there are none, the structure; else what else there is, by name.
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
    /// A picture or document.
    pub fn blob(mime: impl Into<String>, data: impl Into<Bytes>) -> Part {
        Part::Blob {
            mime: mime.into(),
            data: data.into(),
            uri: None,
        }
    }

    /// The text, where it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Part::Text(text) => Some(text),
            Part::Blob { .. } => None,
        }
    }

    /// What stands for it where it cannot be shown.
    pub(crate) fn label(&self) -> String {
        match self {
            Part::Text(text) => text.clone(),
            Part::Blob { mime, data, .. } => format!("[{mime}, {} bytes]", data.len()),
        }
    }

    fn size(&self) -> usize {
        match self {
            Part::Text(text) => text.len(),
            Part::Blob { data, .. } => data.len(),
        }
    }
}

/// What [`Tool::call`](crate::Tool::call) may return.
pub trait IntoOutput: Send {
    /// The schema that its structure always fits; none for free text.
    fn schema() -> Option<Value> {
        None
    }

    /// The result of the call.
    fn into_output(self) -> Result<Output, ToolError>;
}

/// A structure of your own as the result of a tool. What comes out is checked against the type's schema.
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

/// The length of the JSON text, without making it.
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
