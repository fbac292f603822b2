//! Messages as frames of a WebSocket: JSON texts, or binary frames where a client offers them.

use crate::http::checked_values;
use axum::extract::ws;
use bytes::Bytes;
use cellblock_jupyter::{Channel, Message};
use serde_json::{Map, Value, json};

/// The subprotocol with binary frames.
pub(super) const BINARY_PROTOCOL: &str = "v1.kernel.websocket.jupyter.org";
/// The parts of a binary frame before the buffers: channel, header, parent header, metadata, content.
const FIXED_PARTS: usize = 5;
/// The most parts of a binary frame.
const MAX_PARTS: usize = 1000;

/// How the frames of one client look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameForm {
    /// JSON texts, without buffers.
    Text,
    /// A table of offsets, then the parts.
    Binary,
}

impl FrameForm {
    /// The frame of a message.
    pub(super) fn encode(self, channel: Channel, message: &Message) -> ws::Message {
        match self {
            Self::Text => {
                let frame = json!({
                    "channel": channel.name(),
                    "header": message.header,
                    "parent_header": message.parent_header,
                    "metadata": message.metadata,
                    "content": message.content,
                    "buffers": [],
                    "msg_id": message.header.get("msg_id"),
                    "msg_type": message.kind(),
                });
                ws::Message::Text(frame.to_string().into())
            }
            Self::Binary => ws::Message::Binary(encode_binary(channel, message).into()),
        }
    }

    /// The message of a frame; none where it is malformed.
    pub(super) fn decode(frame: &ws::Message) -> Option<(Channel, Message)> {
        match frame {
            ws::Message::Text(text) => decode_text(text),
            ws::Message::Binary(bytes) => decode_binary(bytes),
            _ => None,
        }
    }
}

fn decode_text(text: &str) -> Option<(Channel, Message)> {
    checked_values(text.as_bytes()).ok()?;
    let Value::Object(mut frame) = serde_json::from_str(text).ok()? else {
        return None;
    };
    let channel = Channel::named(frame.get("channel")?.as_str()?)?;
    let mut object = |name: &str| match frame.remove(name) {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    };
    let message = Message {
        identities: Vec::new(),
        header: object("header"),
        parent_header: object("parent_header"),
        metadata: Value::Object(object("metadata")),
        content: Value::Object(object("content")),
        buffers: Vec::new(),
    };
    (!message.kind().is_empty()).then_some((channel, message))
}

fn encode_binary(channel: Channel, message: &Message) -> Vec<u8> {
    let texts = [
        channel.name().to_owned(),
        json!(message.header).to_string(),
        json!(message.parent_header).to_string(),
        message.metadata.to_string(),
        message.content.to_string(),
    ];
    let parts: Vec<&[u8]> = texts
        .iter()
        .map(|text| text.as_bytes())
        .chain(message.buffers.iter().map(|buffer| &buffer[..]))
        .collect();
    // The number of offsets, the beginning of each part, and the end of the last one.
    let offsets = parts.len() + 1;
    let mut place = 8 * (1 + offsets as u64);
    let mut frame = (offsets as u64).to_le_bytes().to_vec();
    frame.extend(place.to_le_bytes());
    for part in &parts {
        place += part.len() as u64;
        frame.extend(place.to_le_bytes());
    }
    for part in parts {
        frame.extend_from_slice(part);
    }
    frame
}

fn decode_binary(bytes: &Bytes) -> Option<(Channel, Message)> {
    let number = |index: usize| {
        let start = index.checked_mul(8)?;
        let text = bytes.get(start..start.checked_add(8)?)?;
        usize::try_from(u64::from_le_bytes(text.try_into().ok()?)).ok()
    };
    let parts = number(0)?.checked_sub(1)?;
    if !(FIXED_PARTS..=MAX_PARTS).contains(&parts) {
        return None;
    }
    let part = |index: usize| {
        let (start, end) = (number(1 + index)?, number(2 + index)?);
        (start <= end && end <= bytes.len()).then(|| bytes.slice(start..end))
    };
    let object = |index: usize| {
        let text = part(index)?;
        checked_values(&text).ok()?;
        match serde_json::from_slice(&text).ok()? {
            Value::Object(object) => Some(object),
            _ => None,
        }
    };
    let channel = Channel::named(std::str::from_utf8(&part(0)?).ok()?)?;
    let message = Message {
        identities: Vec::new(),
        header: object(1)?,
        parent_header: object(2)?,
        metadata: Value::Object(object(3)?),
        content: Value::Object(object(4)?),
        buffers: (FIXED_PARTS..parts).map(part).collect::<Option<_>>()?,
    };
    (!message.kind().is_empty()).then_some((channel, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(buffers: Vec<Bytes>) -> Message {
        let mut header = Map::new();
        header.insert("msg_type".to_owned(), "comm_msg".into());
        Message {
            identities: Vec::new(),
            header,
            parent_header: Map::new(),
            metadata: json!({}),
            content: json!({"text": "schön"}),
            buffers,
        }
    }

    #[test]
    fn a_message_survives_both_forms() {
        let plain = message(Vec::new());
        let frame = FrameForm::Text.encode(Channel::Shell, &plain);
        assert_eq!(FrameForm::decode(&frame), Some((Channel::Shell, plain)));
        let with_buffers = message(vec![Bytes::from_static(b"\0\xff"), Bytes::new()]);
        let frame = FrameForm::Binary.encode(Channel::Control, &with_buffers);
        assert_eq!(
            FrameForm::decode(&frame),
            Some((Channel::Control, with_buffers))
        );
    }

    #[test]
    fn malformed_frames_are_no_message() {
        let whole = encode_binary(Channel::Shell, &message(Vec::new()));
        for length in 0..whole.len() {
            let frame = ws::Message::Binary(whole[..length].to_vec().into());
            assert_eq!(FrameForm::decode(&frame), None, "{length} bytes");
        }
        for number in [0, 1, 3, u64::MAX, u64::MAX / 8] {
            let mut frame = whole.clone();
            frame[..8].copy_from_slice(&number.to_le_bytes());
            let frame = ws::Message::Binary(frame.into());
            assert_eq!(FrameForm::decode(&frame), None, "{number} offsets");
        }
        for text in [
            "",
            "[]",
            "{}",
            r#"{"channel": "shell"}"#,
            r#"{"channel": 5}"#,
        ] {
            assert_eq!(FrameForm::decode(&ws::Message::Text(text.into())), None);
        }
    }
}
