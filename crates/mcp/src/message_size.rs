//! How large a message of a peer may be: in bytes, and in memory once it is parsed.

use cellblock_protocol::JsonMemory;
use rmcp::model::RequestId;
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use std::fmt;

/// The longest message: the largest arguments or pictures, in JSON.
pub(crate) const MAX_MESSAGE_BYTES: usize = 48 << 20;
/// The most memory that the values of a message may take once they are parsed. A text of 48 MiB fits, and so do 900 000 numbers.
pub(crate) const MAX_MESSAGE_MEMORY: usize = 128 << 20;

/// Why a message is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooLarge {
    #[error("it sent a message that is longer than {} MiB, which was left out", MAX_MESSAGE_BYTES >> 20)]
    Bytes,
    #[error(
        "it sent a message whose values would take more than {} MiB of memory, which was left out",
        MAX_MESSAGE_MEMORY >> 20
    )]
    Memory,
}

/// The size of a message that comes in pieces.
#[derive(Debug, Default)]
pub(crate) struct MessageSize {
    bytes: usize,
    memory: JsonMemory,
}

impl MessageSize {
    /// Counts the next piece. The message is too large from this piece on, or not.
    pub(crate) fn add(&mut self, piece: &[u8]) -> Result<(), TooLarge> {
        self.bytes = self.bytes.saturating_add(piece.len());
        if self.bytes > MAX_MESSAGE_BYTES {
            return Err(TooLarge::Bytes);
        }
        self.memory.add(piece);
        match self.memory.bytes() <= MAX_MESSAGE_MEMORY {
            true => Ok(()),
            false => Err(TooLarge::Memory),
        }
    }

    /// Whether nothing of the message has come.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

/// What is known of a message of which only the beginning is parsed, or the whole without its values.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct MessageHead {
    pub(crate) id: Option<RequestId>,
    pub(crate) has_method: bool,
}

impl MessageHead {
    /// Reads the head of a message. The text may end anywhere, and an id that is no text or number is none.
    pub(crate) fn of(text: &[u8]) -> MessageHead {
        let mut head = MessageHead::default();
        // It may end in the middle: what came before counts.
        let _ = serde_json::Deserializer::from_slice(text).deserialize_map(&mut head);
        head
    }
}

impl<'de> Visitor<'de> for &mut MessageHead {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "id" => self.id = map.next_value_seed(IdSeed)?,
                "method" => {
                    self.has_method = true;
                    map.next_value::<IgnoredAny>()?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Reads an id without keeping anything else: `RequestId` itself reads any value first.
struct IdSeed;

impl<'de> serde::de::DeserializeSeed<'de> for IdSeed {
    type Value = Option<RequestId>;

    fn deserialize<D: serde::Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Option<RequestId>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for IdSeed {
    type Value = Option<RequestId>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an id")
    }

    fn visit_i64<E>(self, number: i64) -> Result<Option<RequestId>, E> {
        Ok(Some(RequestId::Number(number)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Option<RequestId>, E> {
        Ok(i64::try_from(number).ok().map(RequestId::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Option<RequestId>, E> {
        Ok(Some(RequestId::String(text.into())))
    }

    fn visit_unit<E>(self) -> Result<Option<RequestId>, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_message_is_read_as_far_as_it_is_there() {
        let head = |text: &str| {
            let head = MessageHead::of(text.as_bytes());
            (head.id, head.has_method)
        };
        let seven = Some(RequestId::Number(7));
        assert_eq!(
            head(r#"{"jsonrpc": "2.0", "id": 7, "result": {"x": [[], ["#),
            (seven.clone(), false)
        );
        assert_eq!(head(r#"{"result": {"id": 8}, "id": 7}"#), (seven, false));
        assert_eq!(
            head(r#"{"method": "notifications/message", "params": {"#),
            (None, true)
        );
        assert_eq!(head(r#"{"id": [[], []], "method": "x"}"#), (None, false));
        let text = RequestId::String("a".into());
        assert_eq!(head(r#"{"id": "a", "result": ["#), (Some(text), false));
        assert_eq!(head("[]"), (None, false));
    }

    #[test]
    fn a_message_is_too_large_by_its_bytes_or_by_its_values() {
        let mut text = MessageSize::default();
        assert_eq!(text.add(b"\""), Ok(()));
        let mut values = MessageSize::default();
        let count = |size: &mut MessageSize, piece: &str| {
            let piece = piece.repeat((1 << 20) / piece.len());
            (0..)
                .take_while(|_| size.add(piece.as_bytes()).is_ok())
                .count()
        };
        assert_eq!(count(&mut text, "x"), 47);
        assert_eq!(text.add(b"x"), Err(TooLarge::Bytes));
        assert_eq!(count(&mut values, "[],"), 0);
        assert_eq!(values.add(b"x"), Err(TooLarge::Memory));
    }
}
