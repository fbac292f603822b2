//! The messages of a conversation. Their JSON is that of the OpenAI protocol.

use serde::{Deserialize, Deserializer, Serialize};

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Instructions for the model.
    System {
        /// The text.
        content: String,
    },
    /// A message of the user, or of the program in the user's place.
    User {
        /// Text, or text and images.
        content: Content,
    },
    /// A message of the model.
    Assistant(AssistantMessage),
    /// The result of one of the calls in the assistant message before it.
    Tool {
        /// The id of the call.
        tool_call_id: String,
        /// The result as text.
        content: String,
    },
    /// The result of a call in the old form, `function_call`.
    Function {
        /// The name of the function that was called.
        name: String,
        /// The result as text.
        content: String,
    },
}

/// The content of a user message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Text alone.
    Text(String),
    /// Texts and images, in order.
    Parts(Vec<Part>),
}

/// A part of a user message.
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
        /// The URL of the image.
        image_url: Image,
    },
}

/// An image, by its URL. A `data:` URL contains the image itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The URL.
    pub url: String,
}

/// A message of the model: text, tool calls, or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The text. Empty where the message has only calls.
    #[serde(default, deserialize_with = "null_is_default")]
    pub content: String,
    /// The reasoning before the answer, where the endpoint sends it. It is sent back only where [`Capabilities::reasoning_in_history`] says so.
    ///
    /// [`Capabilities::reasoning_in_history`]: crate::Capabilities::reasoning_in_history
    #[serde(
        rename = "reasoning_content",
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub reasoning: String,
    /// A call in the old form. It counts before `tool_calls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function_call: Option<FunctionCall>,
    /// The tool calls, in order.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub tool_calls: Vec<ToolCall>,
}

/// A tool call by the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ToolCallJson", into = "ToolCallJson")]
pub struct ToolCall {
    /// The id of the call: unique in its message, never empty.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments as the model wrote them. They should be JSON and may be any text.
    pub arguments: String,
}

/// A call in the old form, `function_call`, which has no id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// The name of the function.
    pub name: String,
    /// The arguments as the model wrote them. They should be JSON and may be any text.
    pub arguments: String,
}

#[derive(Clone, Serialize, Deserialize)]
struct ToolCallJson {
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
    /// A system message.
    pub fn system(text: impl Into<String>) -> Self {
        Self::System {
            content: text.into(),
        }
    }

    /// A user message.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User {
            content: Content::Text(text.into()),
        }
    }

    /// A user message with images after the text.
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

    /// An assistant message without calls.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant(AssistantMessage {
            content: text.into(),
            ..AssistantMessage::default()
        })
    }

    /// The result of a tool call.
    pub fn tool(call: impl Into<String>, result: impl Into<String>) -> Self {
        Self::Tool {
            tool_call_id: call.into(),
            content: result.into(),
        }
    }

    /// The result of a call in the old form.
    pub fn function(name: impl Into<String>, result: impl Into<String>) -> Self {
        Self::Function {
            name: name.into(),
            content: result.into(),
        }
    }

    /// The text of the message, without images and calls.
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
    /// The text of the content, without images.
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
    /// An image that is sent inside the message.
    pub fn inline(mime: &str, base64: &str) -> Self {
        Self {
            url: format!("data:{mime};base64,{base64}"),
        }
    }
}

impl From<ToolCallJson> for ToolCall {
    fn from(wire: ToolCallJson) -> Self {
        Self {
            id: wire.id,
            name: wire.function.name,
            arguments: wire.function.arguments,
        }
    }
}

impl From<ToolCall> for ToolCallJson {
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
