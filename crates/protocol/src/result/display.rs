//! What code shows while it runs, and messages between widgets and their front ends.

use serde::{Deserialize, Serialize};

use crate::cell::Cell;
use crate::json::invalid::Invalid;
use crate::{MimeBundle, ToolArguments};

/// Something that code shows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Display {
    /// Its forms.
    pub mime: MimeBundle,
    /// The name under which the code can replace it later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_id: Option<String>,
    /// Whether it replaces what was shown before under the same `display_id`, and is not shown itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub update: bool,
    /// What front ends shall know of its forms, such as the width of a picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ToolArguments>,
}

impl From<MimeBundle> for Display {
    fn from(mime: MimeBundle) -> Self {
        Self {
            mime,
            ..Self::default()
        }
    }
}

/// A message between a widget in a session and its counterpart in a front end, as the `comm` package of Jupyter defines it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommMessage {
    /// What the message is for.
    pub kind: CommKind,
    /// The id of the channel that the message belongs to.
    pub comm: String,
    /// The name of the receiver's handler; only for `open`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The contents.
    #[serde(default)]
    pub data: ToolArguments,
    /// What belongs to the contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ToolArguments>,
    /// Binary contents, as base64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buffers: Vec<String>,
}

/// What a message between widgets is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommKind {
    /// A channel begins.
    Open,
    /// Something is said on a channel.
    Msg,
    /// A channel ends.
    Close,
}

impl CommMessage {
    /// The most bytes of the name of a channel or of a handler.
    pub const MAX_NAME_BYTES: usize = 512;
    /// The most buffers of one message.
    pub const MAX_BUFFERS: usize = 1000;

    /// The cell that hands this message of a front end to the code of a session.
    ///
    /// The handlers of widgets are code of the user. As a cell they have what every cell has: a time limit, output, a result,
    /// a record in the journal, and nothing is left of a handler that crashes.
    pub fn to_cell(&self) -> Result<Cell, Invalid> {
        self.validate()?;
        let message = serde_json::to_string(self).unwrap_or_default();
        // A JSON text is also the text of a Python string, once it is quoted as JSON quotes it: all else is escaped.
        let quoted = serde_json::to_string(&message).unwrap_or_default();
        let ascii: String = quoted.chars().map(escape).collect();
        Ok(Cell::new(format!(
            "__import__('cellblock_guest.comms', fromlist=['deliver']).deliver({ascii})"
        ))
        .silent(true))
    }

    fn validate(&self) -> Result<(), Invalid> {
        for (field, text) in [("comm", Some(&self.comm)), ("target", self.target.as_ref())] {
            let is_name = |text: &&String| (1..=Self::MAX_NAME_BYTES).contains(&text.len());
            if let Some(text) = text.filter(|text| !is_name(text)) {
                let expected = format!("1 to {} bytes", Self::MAX_NAME_BYTES);
                return Err(Invalid::value(
                    field,
                    expected,
                    format!("{} bytes", text.len()),
                ));
            }
        }
        if self.buffers.len() > Self::MAX_BUFFERS {
            let expected = format!("at most {} buffers", Self::MAX_BUFFERS);
            return Err(Invalid::value(
                "buffers",
                expected,
                self.buffers.len().to_string(),
            ));
        }
        Ok(())
    }
}

/// A character as it may stand in a Python string between double quotes: what JSON leaves as it is and Python does not know.
fn escape(character: char) -> String {
    match character {
        ' '..='~' => character.to_string(),
        other => format!("\\U{:08x}", u32::from(other)),
    }
}
