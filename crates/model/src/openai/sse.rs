//! A decoder for server-sent events.
//!
//! Written by hand, because the crates for it end the stream at the first byte that is not UTF-8, drop a last event without an empty line
//! after it, and put no bound on the length of a line.

/// The longest event. A usual one has a few words.
const MAX_EVENT_BYTES: usize = 8 << 20;

/// Decodes a stream of bytes into the data of its events.
#[derive(Default)]
pub(super) struct SseDecoder {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// Whether the last byte was a carriage return.
    after_return: bool,
    is_too_long: bool,
}

/// The data of one event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SseData {
    pub(super) text: String,
    pub(super) was_utf8: bool,
}

/// An event is longer than [`MAX_EVENT_BYTES`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventTooLong;

impl SseDecoder {
    /// Adds bytes, and returns the events that end in them. A character may begin in one call and end in the next.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseData>, EventTooLong> {
        let mut events = Vec::new();
        for &byte in bytes {
            let follows_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if follows_return => {}
                b'\n' => events.extend(self.end_line()),
                b'\r' => {
                    self.after_return = true;
                    events.extend(self.end_line());
                }
                _ => self.line.push(byte),
            }
            self.is_too_long |= self.line.len() + self.data.len() > MAX_EVENT_BYTES;
        }
        if self.is_too_long {
            Err(EventTooLong)
        } else {
            Ok(events)
        }
    }

    /// Ends the stream, and returns a last event without an empty line after it.
    pub(super) fn finish(mut self) -> Option<SseData> {
        let last = self.end_line();
        last.or_else(|| self.end_event())
    }

    fn end_line(&mut self) -> Option<SseData> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.end_event();
        }
        if let Some(value) = line.strip_prefix(b"data:") {
            if self.has_data {
                self.data.push(b'\n');
            }
            self.has_data = true;
            let value = value.strip_prefix(b" ").unwrap_or(value);
            self.data.extend_from_slice(value);
        }
        None
    }

    fn end_event(&mut self) -> Option<SseData> {
        let data = std::mem::take(&mut self.data);
        if !std::mem::take(&mut self.has_data) {
            return None;
        }
        Some(match String::from_utf8(data) {
            Ok(text) => SseData {
                text,
                was_utf8: true,
            },
            Err(error) => SseData {
                text: String::from_utf8_lossy(error.as_bytes()).into_owned(),
                was_utf8: false,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(pieces: &[&[u8]]) -> Vec<String> {
        let mut events = SseDecoder::default();
        let mut found = Vec::new();
        for piece in pieces {
            found.extend(events.push(piece).unwrap());
        }
        found.extend(events.finish());
        found.into_iter().map(|data| data.text).collect()
    }

    #[test]
    fn an_event_ends_with_an_empty_line_or_with_the_stream() {
        assert_eq!(
            texts(&[b": hello\r\n\r\ndata: a\ndata:b\n\nevent: x\ndata: c"]),
            ["a\nb", "c"]
        );
    }

    #[test]
    fn an_event_without_end_is_an_error() {
        let mut events = SseDecoder::default();
        assert_eq!(
            events.push(&vec![b'x'; MAX_EVENT_BYTES + 1]),
            Err(EventTooLong)
        );
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_bytes_are_cut(text in "\\PC{0,40}", cut in 0usize..60) {
            let whole = format!("data: {text}\r\n\r\ndata: [DONE]\n\n").into_bytes();
            let cut = cut.min(whole.len());
            let (a, b) = whole.split_at(cut);
            prop_assert_eq!(texts(&[a, b]), vec![text, "[DONE]".into()]);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            texts(&[&bytes]);
        }
    }
}
