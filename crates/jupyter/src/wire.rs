//! Messages as frames of ZeroMQ: `identities… <IDS|MSG> signature header parent metadata content buffers…`.

use crate::message::Message;
use crate::received::ReceivedTags;
use bytes::Bytes;
use cellblock_protocol::JsonMemory;
use ring::hmac;
use serde_json::{Map, Value, json};

const DELIMITER: &[u8] = b"<IDS|MSG>";
/// The frames after the delimiter that every message has: the signature and four JSON texts.
const FIXED_FRAMES: usize = 5;
/// The most frames in front of the delimiter: one for each router on the way.
const MAX_IDENTITIES: usize = 16;
/// The most bytes of the JSON texts of one message, and the most memory that they may take once they are parsed.
const MAX_JSON_BYTES: usize = 64 << 20;
const MAX_JSON_MEMORY: usize = 256 << 20;
/// The most buffers of one message.
const MAX_BUFFERS: usize = 1000;

/// Signs and checks the messages of one kernel with the key of its connection file.
#[derive(Clone)]
pub struct Wire {
    /// None where the connection file has an empty key: then messages are not signed.
    key: Option<hmac::Key>,
}

/// Why frames are no message.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WireError {
    /// There is no delimiter, or something is missing after it.
    #[error("the frames are no Jupyter message")]
    Malformed,
    /// The signature is not that of the connection file's key.
    #[error("the signature is wrong")]
    Signature,
    /// The message came before. A program that can read the sockets, and does not know the key, could send it again.
    #[error("the message was sent before")]
    Repeated,
    /// A part is not the JSON that it should be.
    #[error("the {0} is no JSON object")]
    Json(&'static str),
    /// The message is larger than a kernel reads.
    #[error("the message is too large")]
    TooLarge,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key opens the kernel to its reader.
        out.debug_struct("Wire")
            .field("signed", &self.key.is_some())
            .finish()
    }
}

impl Wire {
    /// A wire with this key; an empty one means that messages are not signed.
    pub fn new(key: &str) -> Self {
        let key = (!key.is_empty()).then(|| hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()));
        Self { key }
    }

    /// The frames of a message.
    pub fn encode(&self, message: &Message) -> Vec<Bytes> {
        let parts = [
            Bytes::from(json!(message.header).to_string()),
            Bytes::from(json!(message.parent_header).to_string()),
            Bytes::from(message.metadata.to_string()),
            Bytes::from(message.content.to_string()),
        ];
        let mut frames = message.identities.clone();
        frames.push(Bytes::from_static(DELIMITER));
        frames.push(Bytes::from(self.signature(&parts)));
        frames.extend(parts);
        frames.extend(message.buffers.iter().cloned());
        frames
    }

    /// The message of some frames, once its signature is checked.
    pub fn decode(&self, frames: Vec<Bytes>) -> Result<Message, WireError> {
        let delimiter = delimiter(&frames)?;
        let parts = &frames[delimiter + 1..];
        if parts.len() < FIXED_FRAMES {
            return Err(WireError::Malformed);
        }
        let (fixed, buffers) = parts.split_at(FIXED_FRAMES);
        let json_bytes: usize = fixed.iter().map(Bytes::len).sum();
        if json_bytes > MAX_JSON_BYTES || buffers.len() > MAX_BUFFERS {
            return Err(WireError::TooLarge);
        }
        // Before anything is parsed: only those who know the key are listened to.
        self.check(&fixed[0], &fixed[1..])?;
        let mut memory = JsonMemory::default();
        fixed[1..].iter().for_each(|text| memory.add(text));
        if memory.bytes() > MAX_JSON_MEMORY {
            return Err(WireError::TooLarge);
        }
        Ok(Message {
            identities: frames[..delimiter].to_vec(),
            header: object(&fixed[1], "header")?,
            parent_header: object(&fixed[2], "parent header")?,
            metadata: Value::Object(object(&fixed[3], "metadata")?),
            content: Value::Object(object(&fixed[4], "content")?),
            buffers: buffers.to_vec(),
        })
    }

    /// The message of some frames, if it is the first with its signature. Without a key every message is.
    pub(crate) fn decode_once(
        &self,
        frames: Vec<Bytes>,
        received: &ReceivedTags,
    ) -> Result<Message, WireError> {
        let signature = frames.get(delimiter(&frames)? + 1).cloned();
        let message = self.decode(frames)?;
        let tag = signature.and_then(|signature| decode_hex(&signature));
        let is_first = match tag.filter(|_| self.key.is_some()) {
            Some(tag) => received.insert(tag),
            None => true,
        };
        is_first.then_some(message).ok_or(WireError::Repeated)
    }

    fn signature(&self, parts: &[Bytes]) -> String {
        let Some(key) = &self.key else {
            return String::new();
        };
        let mut context = hmac::Context::with_key(key);
        for part in parts {
            context.update(part);
        }
        let tag = context.sign();
        tag.as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    fn check(&self, signature: &[u8], parts: &[Bytes]) -> Result<(), WireError> {
        let Some(key) = &self.key else {
            return Ok(());
        };
        let tag = decode_hex(signature).ok_or(WireError::Signature)?;
        let signed: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        // Compares in constant time.
        hmac::verify(key, &signed, &tag).map_err(|_| WireError::Signature)
    }
}

/// Where the delimiter is.
fn delimiter(frames: &[Bytes]) -> Result<usize, WireError> {
    let mut first = frames.iter().take(MAX_IDENTITIES + 1);
    first
        .position(|frame| frame == DELIMITER)
        .ok_or(WireError::Malformed)
}

fn object(bytes: &[u8], part: &'static str) -> Result<Map<String, Value>, WireError> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(Value::Null) => Ok(Map::new()),
        _ => Err(WireError::Json(part)),
    }
}

fn decode_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.chunks(2)
        .map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::MessageFactory;

    fn message() -> Message {
        let mut message = MessageFactory::new().published(
            "stream",
            &Map::new(),
            json!({"name": "stdout", "text": "schön"}),
        );
        message.identities = vec![Bytes::from_static(b"client")];
        message.buffers = vec![Bytes::from_static(b"\0\xff"), Bytes::new()];
        message
    }

    #[test]
    fn a_message_survives_the_journey() {
        for key in ["secret", ""] {
            let (wire, message) = (Wire::new(key), message());
            assert_eq!(wire.decode(wire.encode(&message)), Ok(message));
        }
    }

    #[test]
    fn a_message_that_was_changed_on_the_way_is_refused() {
        let wire = Wire::new("secret");
        for part in 1..=5 {
            let mut frames = wire.encode(&message());
            frames[1 + part] = Bytes::from_static(b"{\"msg_type\":\"shutdown_request\"}");
            assert_eq!(
                wire.decode(frames),
                Err(WireError::Signature),
                "part {part}"
            );
        }
        let frames = Wire::new("another").encode(&message());
        assert_eq!(wire.decode(frames), Err(WireError::Signature));
    }

    #[test]
    fn a_message_that_is_sent_again_is_refused_if_messages_are_signed() {
        for (key, outcome) in [("secret", Err(WireError::Repeated)), ("", Ok(message()))] {
            let (wire, received) = (Wire::new(key), ReceivedTags::default());
            let frames = wire.encode(&message());
            let first = wire.decode_once(frames.clone(), &received);
            assert!(first.is_ok());
            let mut again = frames;
            // The same signature, written in another way.
            again[2] = Bytes::from(again[2].to_ascii_uppercase());
            let kind = |outcome: Result<Message, WireError>| outcome.map(|message| message.buffers);
            assert_eq!(kind(wire.decode_once(again, &received)), kind(outcome));
        }
    }

    #[test]
    fn frames_that_are_no_message_are_refused() {
        let wire = Wire::new("");
        let frame = Bytes::from_static;
        assert_eq!(wire.decode(Vec::new()), Err(WireError::Malformed));
        assert_eq!(
            wire.decode(vec![frame(DELIMITER), frame(b""), frame(b"{}")]),
            Err(WireError::Malformed)
        );
        let mut frames = vec![frame(DELIMITER), frame(b"")];
        frames.extend([frame(b"[]"), frame(b"{}"), frame(b"{}"), frame(b"{}")]);
        assert_eq!(wire.decode(frames), Err(WireError::Json("header")));
        let mut frames = vec![frame(DELIMITER), frame(b"")];
        let many = format!(r#"{{"x": [{}[]]}}"#, "[],".repeat(1_000_000));
        frames.extend([frame(b"{}"), frame(b"{}"), frame(b"{}"), Bytes::from(many)]);
        assert_eq!(wire.decode(frames), Err(WireError::TooLarge));
        let identities = vec![frame(b"x"); MAX_IDENTITIES + 1];
        assert_eq!(wire.decode(identities), Err(WireError::Malformed));
    }
}
