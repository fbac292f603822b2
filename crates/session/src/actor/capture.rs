//! The output of a cell: the beginning kept in memory, the rest spilled to a file, all of it bounded.

use crate::actor::outputs::{Segment, Written};
use cellblock_protocol::{Cut, Stream, Truncated};
use cellblock_sandbox::private_file;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

/// Alternating between the streams costs a segment each time; past this many, single streams can no longer be told apart.
const MAX_SEGMENTS: usize = 1 << 16;

/// The output of the cell that runs.
#[derive(Debug)]
pub(crate) struct Capture {
    limit: usize,
    spill_limit: u64,
    spill_path: PathBuf,
    spill: Option<File>,
    spilled: u64,
    segments: Vec<Segment>,
    stdout: BoundedText,
    stderr: BoundedText,
    output: BoundedText,
}

/// The beginning of one text, and how long it really was.
#[derive(Debug, Default)]
struct BoundedText {
    bytes: Vec<u8>,
    total: u64,
    /// A character that is not whole yet, for the live text.
    partial: Vec<u8>,
}

impl Capture {
    pub(crate) fn new(limit: u64, spill_limit: u64, spill_path: PathBuf) -> Capture {
        Capture {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            spill_limit,
            spill_path,
            spill: None,
            spilled: 0,
            segments: Vec::new(),
            stdout: BoundedText::default(),
            stderr: BoundedText::default(),
            output: BoundedText::default(),
        }
    }

    /// Takes what one stream brought, and returns the characters that are whole now.
    pub(crate) fn take(&mut self, stream: Stream, bytes: &[u8]) -> String {
        let limit = self.limit;
        self.note_segment(stream, bytes.len() as u64);
        self.spill(bytes);
        self.output.keep(bytes, limit);
        let kept = match stream {
            Stream::Stderr => &mut self.stderr,
            _ => &mut self.stdout,
        };
        kept.keep(bytes, limit);
        kept.decode(bytes)
    }

    /// Bytes written to each stream.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.stdout.total, self.stderr.total)
    }

    /// The three texts of a result, with what was cut.
    pub(crate) fn texts(&self) -> (String, String, String, Option<Truncated>) {
        let truncated = Truncated::any(self.stdout.cut(), self.stderr.cut(), self.output.cut());
        (
            self.stdout.text(),
            self.stderr.text(),
            self.output.text(),
            truncated,
        )
    }

    /// The output that stays to be read by pages.
    pub(crate) fn into_written(mut self) -> Written {
        if let Some(file) = self.spill.take() {
            drop(file);
            return Written::in_file(self.spill_path, self.spilled, self.segments);
        }
        Written::in_memory(self.output.bytes, self.segments)
    }

    fn note_segment(&mut self, stream: Stream, length: u64) {
        let end = self.output.total + length;
        let full = self.segments.len() >= MAX_SEGMENTS;
        match self.segments.last_mut() {
            Some(last) if last.stream == stream || full => last.end = end,
            _ => self.segments.push(Segment { stream, end }),
        }
    }

    /// The file is begun when memory is full, with what memory holds.
    fn spill(&mut self, bytes: &[u8]) {
        if self.spill.is_none() {
            if self.output.total + bytes.len() as u64 <= self.limit as u64 {
                return;
            }
            // From an attempt before: a disk that is full costs the pages of the rest, not the cell.
            let _ = std::fs::remove_file(&self.spill_path);
            let Ok(mut file) = private_file(&self.spill_path) else {
                return;
            };
            if file.write_all(&self.output.bytes).is_err() {
                return;
            }
            self.spilled = self.output.bytes.len() as u64;
            self.spill = Some(file);
        }
        let room =
            usize::try_from(self.spill_limit.saturating_sub(self.spilled)).unwrap_or(usize::MAX);
        let fitting = &bytes[..bytes.len().min(room)];
        if let Some(file) = &mut self.spill
            && file.write_all(fitting).is_ok()
        {
            self.spilled += fitting.len() as u64;
        }
    }
}

impl BoundedText {
    fn keep(&mut self, bytes: &[u8], limit: usize) {
        let room = limit.saturating_sub(self.bytes.len());
        self.bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.total += bytes.len() as u64;
    }

    /// Whole characters up to the limit: a cut in the middle of one would not be text.
    fn whole(&self) -> &[u8] {
        if self.total == self.bytes.len() as u64 {
            &self.bytes
        } else {
            &self.bytes[..whole_characters(&self.bytes)]
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(self.whole()).into_owned()
    }

    fn cut(&self) -> Option<Cut> {
        let kept = self.whole().len() as u64;
        (kept < self.total).then_some(Cut {
            kept,
            left_out: self.total - kept,
        })
    }

    fn decode(&mut self, bytes: &[u8]) -> String {
        if self.partial.is_empty() {
            let whole = whole_characters(bytes);
            self.partial.extend_from_slice(&bytes[whole..]);
            return String::from_utf8_lossy(&bytes[..whole]).into_owned();
        }
        self.partial.extend_from_slice(bytes);
        let whole = whole_characters(&self.partial);
        let text = String::from_utf8_lossy(&self.partial[..whole]).into_owned();
        self.partial.drain(..whole);
        text
    }
}

/// How many bytes there are before a character that has begun but not ended.
pub(crate) fn whole_characters(bytes: &[u8]) -> usize {
    let longest = bytes.len().min(3);
    for back in 1..=longest {
        let byte = bytes[bytes.len() - back];
        let needed = match byte {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            0x80..=0xBF => continue,
            _ => return bytes.len(),
        };
        return if needed > back {
            bytes.len() - back
        } else {
            bytes.len()
        };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(limit: u64) -> (tempfile::TempDir, Capture) {
        let directory = tempfile::tempdir().unwrap();
        let capture = Capture::new(limit, 1 << 20, directory.path().join("spill"));
        (directory, capture)
    }

    #[test]
    fn both_streams_are_kept_apart_and_together_in_order() {
        let (_directory, mut capture) = capture(100);
        capture.take(Stream::Stdout, b"one ");
        capture.take(Stream::Stderr, b"two ");
        capture.take(Stream::Stdout, b"three");
        let expected = (
            "one three".to_owned(),
            "two ".to_owned(),
            "one two three".to_owned(),
            None,
        );
        assert_eq!(capture.texts(), expected);
    }

    #[test]
    fn a_character_split_between_two_reads_arrives_whole() {
        let (_directory, mut capture) = capture(100);
        let snow = "☃".as_bytes();
        let live = [
            capture.take(Stream::Stdout, &snow[..1]),
            capture.take(Stream::Stdout, &snow[1..]),
        ];
        assert_eq!(live, ["".to_owned(), "☃".to_owned()]);
    }

    #[test]
    fn what_does_not_fit_is_counted_and_can_be_read_from_the_spill() {
        let (_directory, mut capture) = capture(4);
        capture.take(Stream::Stdout, b"abc");
        capture.take(Stream::Stderr, b"XY");
        capture.take(Stream::Stdout, b"def");
        let cut = |kept, left_out| Some(Cut { kept, left_out });
        let truncated = Truncated::any(cut(4, 2), None, cut(4, 4));
        assert_eq!(
            capture.texts(),
            ("abcd".into(), "XY".into(), "abcX".into(), truncated)
        );
        let written = capture.into_written();
        assert_eq!(written.read(Stream::Stdout, 3, 10).unwrap(), "def");
        assert_eq!(written.read(Stream::Stderr, 0, 10).unwrap(), "XY");
        assert_eq!(written.read(Stream::Output, 2, 4).unwrap(), "cXYd");
    }
}
