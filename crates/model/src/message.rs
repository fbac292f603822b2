//! What is said in a conversation. The JSON of these types is the one of the OpenAI protocol.

use serde::{Deserialize, Deserializer, Serialize};

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// How the model shall behave.
    System {
        /// The text.
        content: String,
    },
    /// What the user says, or the program in the user's place.
    User {
        /// Text, or text and images.
        content: Content,
    },
    /// What the model said.
    Assistant(AssistantMessage),
    /// The answer to one of the calls in the assistant's message before it.
    Tool {
        /// To which call.
        tool_call_id: String,
        /// The answer.
        content: String,
    },
    /// The answer to the old `function_call`.
    Function {
        /// The function that was called.
        name: String,
        /// The answer.
        content: String,
    },
}

/// The content of a user's message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Text alone.
    Text(String),
    /// Several parts in order.
    Parts(Vec<Part>),
}

/// A part of a user's message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    ImageUrl {
        /// Where it is, or the image itself.
        image_url: Image,
    },
}

/// An image: an address, or the image itself as a `data:` address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The address.
    pub url: String,
}

/// What the model said: text, calls, or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The text; empty where it only calls.
    #[serde(default, deserialize_with = "null_is_default")]
    pub content: String,
    /// What it thought first, where the endpoint tells. Sent back only where [`Capabilities::reasoning_in_history`] says so.
    ///
    /// [`Capabilities::reasoning_in_history`]: crate::Capabilities::reasoning_in_history
    #[serde(
        rename = "reasoning_content",
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub reasoning: String,
    /// The old way to call, at most one. It comes before `tool_calls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function_call: Option<FunctionCall>,
    /// The calls, in order.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub tool_calls: Vec<ToolCall>,
}

/// A call that the model makes. `arguments` is text as it came, which may be anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ToolCallOnTheWire", into = "ToolCallOnTheWire")]
pub struct ToolCall {
    /// Unique in its message, never empty.
    pub id: String,
    /// Which tool.
    pub name: String,
    /// JSON, if the model did well.
    pub arguments: String,
}

/// A call in the old form, which has no id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// Which function.
    pub name: String,
    /// JSON, if the model did well.
    pub arguments: String,
}

#[derive(Clone, Serialize, Deserialize)]
struct ToolCallOnTheWire {
    id: String,
    #[serde(rename = "type", default)]
    kind: FunctionKind,
    function: FunctionCall,
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FunctionKind {
    #[default]
    Function,
}

impl Message {
    /// A message that says how to behave.
    pub fn system(text: impl Into<String>) -> Self {
        Self::System {
            content: text.into(),
        }
    }

    /// A message of the user's.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User {
            content: Content::Text(text.into()),
        }
    }

    /// A message of the user's with images after the text.
    pub fn user_with_images(
        text: impl Into<String>,
        images: impl IntoIterator<Item = Image>,
    ) -> Self {
        let text = Part::Text { text: text.into() };
        let images = images
            .into_iter()
            .map(|image_url| Part::ImageUrl { image_url });
        Self::User {
            content: Content::Parts(std::iter::once(text).chain(images).collect()),
        }
    }

    /// What the model said, without calls.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant(AssistantMessage {
            content: text.into(),
            ..AssistantMessage::default()
        })
    }

    /// The answer to a call.
    pub fn tool(call: impl Into<String>, answer: impl Into<String>) -> Self {
        Self::Tool {
            tool_call_id: call.into(),
            content: answer.into(),
        }
    }

    /// The answer to a call in the old form.
    pub fn function(name: impl Into<String>, answer: impl Into<String>) -> Self {
        Self::Function {
            name: name.into(),
            content: answer.into(),
        }
    }

    /// The text, without images and calls.
    pub fn text(&self) -> String {
        match self {
            Self::System { content }
            | Self::Tool { content, .. }
            | Self::Function { content, .. } => content.clone(),
            Self::Assistant(message) => message.content.clone(),
            Self::User { content } => content.text(),
        }
    }
}

impl Content {
    /// The text, without images.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => {
                let texts = parts.iter().filter_map(|part| match part {
                    Part::Text { text } => Some(text.as_str()),
                    Part::ImageUrl { .. } => None,
                });
                texts.collect::<Vec<_>>().join("\n")
            }
        }
    }
}

impl Image {
    /// An image that travels with the message.
    pub fn inline(mime: &str, base64: &str) -> Self {
        Self {
            url: format!("data:{mime};base64,{base64}"),
        }
    }
}

impl From<ToolCallOnTheWire> for ToolCall {
    fn from(wire: ToolCallOnTheWire) -> Self {
        Self {
            id: wire.id,
            name: wire.function.name,
            arguments: wire.function.arguments,
        }
    }
}

impl From<ToolCall> for ToolCallOnTheWire {
    fn from(call: ToolCall) -> Self {
        Self {
            id: call.id,
            kind: FunctionKind::Function,
            function: FunctionCall {
                name: call.name,
                arguments: call.arguments,
            },
        }
    }
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
