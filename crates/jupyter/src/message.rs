//! Messages of the Jupyter protocol, independent of how they travel.

use bytes::Bytes;
use chrono::{SecondsFormat, Utc};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Map, Value, json};

/// The version of the protocol that headers and replies name.
pub const PROTOCOL_VERSION: &str = "5.4";

/// One of the channels between a kernel and its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Requests that are done one after the other.
    Shell,
    /// Requests that are done at once, also while a cell runs.
    Control,
    /// Questions of the kernel to the client that started the cell.
    Stdin,
    /// What all clients see: output, status, results.
    Iopub,
}

impl Channel {
    /// The name of the channel in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Control => "control",
            Self::Stdin => "stdin",
            Self::Iopub => "iopub",
        }
    }

    /// The channel with this name in JSON.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Shell, Self::Control, Self::Stdin, Self::Iopub];
        all.into_iter().find(|channel| channel.name() == name)
    }
}

/// A message with its four JSON parts and its binary buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The frames that lead back to the client. Empty for messages to all clients.
    pub identities: Vec<Bytes>,
    /// The type, id, session, user, date and version of the message.
    pub header: Map<String, Value>,
    /// The header of the request that caused the message. Empty where there is none.
    pub parent_header: Map<String, Value>,
    /// What is said about the contents.
    pub metadata: Value,
    /// The contents.
    pub content: Value,
    /// Binary contents.
    pub buffers: Vec<Bytes>,
}

impl Message {
    /// The type of the message, such as `execute_request`; empty where the header names none.
    pub fn kind(&self) -> &str {
        self.header
            .get("msg_type")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The date of the header; empty where there is none.
    pub(crate) fn date(&self) -> &str {
        self.header
            .get("date")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// A text of the contents.
    pub(crate) fn text(&self, field: &str) -> &str {
        self.content
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// A truth value of the contents.
    pub(crate) fn flag(&self, field: &str, default: bool) -> bool {
        self.content
            .get(field)
            .and_then(Value::as_bool)
            .unwrap_or(default)
    }

    /// A number of the contents.
    pub(crate) fn number(&self, field: &str) -> Option<i64> {
        self.content.get(field).and_then(Value::as_i64)
    }
}

/// Makes messages of one kernel: it knows the kernel's session id.
#[derive(Clone, Debug)]
pub(crate) struct MessageFactory {
    session: String,
}

impl MessageFactory {
    pub(crate) fn new() -> Self {
        Self {
            session: fresh_id(),
        }
    }

    /// A message for all clients that a request caused.
    pub(crate) fn published(
        &self,
        kind: &str,
        parent: &Map<String, Value>,
        content: Value,
    ) -> Message {
        Message {
            identities: Vec::new(),
            header: self.header(kind),
            parent_header: parent.clone(),
            metadata: json!({}),
            content,
            buffers: Vec::new(),
        }
    }

    /// The reply to a request, or a question to its client.
    pub(crate) fn reply(&self, kind: &str, request: &Message, content: Value) -> Message {
        Message {
            identities: request.identities.clone(),
            ..self.published(kind, &request.header, content)
        }
    }

    fn header(&self, kind: &str) -> Map<String, Value> {
        let mut header = Map::new();
        header.insert("msg_id".into(), fresh_id().into());
        header.insert("msg_type".into(), kind.into());
        header.insert("session".into(), self.session.clone().into());
        header.insert("username".into(), "cellblock".into());
        header.insert("date".into(), now().into());
        header.insert("version".into(), PROTOCOL_VERSION.into());
        header
    }
}

/// The time as headers write it: `2026-01-31T08:30:00.000000Z`.
pub fn now() -> String {
    Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// An id that no other message has.
pub fn fresh_id() -> String {
    let mut bytes = [0_u8; 16];
    // The system's generator fails only before it is seeded, at the start of a machine. An id need not be secret.
    let _ = SystemRandom::new().fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
