//! What a container's processes write, line by line.

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use std::collections::VecDeque;
use std::fmt;
use tokio::io::AsyncReadExt as _;

/// The longest line; what is longer comes in pieces.
const LONGEST_LINE: usize = 8 << 10;
/// The longest frame that an engine sends.
const LONGEST_FRAME: usize = 16 << 20;

/// Where a line was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Source::Stdout => "stdout",
            Source::Stderr => "stderr",
        })
    }
}

/// A container's standard output and error.
#[derive(Debug)]
pub struct Output {
    stream: TokioIo<Upgraded>,
    frames: Frames,
}

impl Output {
    pub(crate) fn new(upgraded: Upgraded) -> Output {
        Output {
            stream: TokioIo::new(upgraded),
            frames: Frames::default(),
        }
    }

    /// The next line, without its end; `None` when there will be no more. Safe to drop while it waits.
    pub async fn next_line(&mut self) -> Option<(Source, String)> {
        loop {
            if let Some(line) = self.frames.lines.pop_front() {
                return Some(line);
            }
            let mut buffer = [0; 8 << 10];
            match self.stream.read(&mut buffer).await {
                Ok(read) if read > 0 => self.frames.feed(&buffer[..read])?,
                _ => {
                    self.frames.end();
                    return self.frames.lines.pop_front();
                }
            }
        }
    }
}

/// The engine's framing: a stream's number, three zeros, a length, and so many bytes.
#[derive(Debug, Default)]
struct Frames {
    buffer: Vec<u8>,
    begun: [Vec<u8>; 2],
    lines: VecDeque<(Source, String)>,
}

impl Frames {
    /// `None` when this is no framing at all.
    fn feed(&mut self, bytes: &[u8]) -> Option<()> {
        self.buffer.extend_from_slice(bytes);
        while let Some((head, rest)) = self.buffer.split_first_chunk::<8>() {
            let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
            if length > LONGEST_FRAME || head[1..4] != [0, 0, 0] {
                return None;
            }
            let source = match head[0] {
                2 => Source::Stderr,
                _ => Source::Stdout,
            };
            let Some(text) = rest.get(..length) else {
                break;
            };
            let text = text.to_vec();
            self.buffer.drain(..8 + length);
            self.take(source, &text);
        }
        Some(())
    }

    fn take(&mut self, source: Source, text: &[u8]) {
        for byte in text {
            let begun = &mut self.begun[source as usize];
            if *byte != b'\n' {
                begun.push(*byte);
            }
            if *byte == b'\n' || begun.len() >= LONGEST_LINE {
                self.end_line(source);
            }
        }
    }

    fn end_line(&mut self, source: Source) {
        let bytes = std::mem::take(&mut self.begun[source as usize]);
        let line = String::from_utf8_lossy(&bytes).into_owned();
        self.lines.push_back((source, line));
    }

    /// A line that was begun is one, too.
    fn end(&mut self) {
        for source in [Source::Stdout, Source::Stderr] {
            if !self.begun[source as usize].is_empty() {
                self.end_line(source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(stream: u8, text: &str) -> Vec<u8> {
        let mut bytes = vec![stream, 0, 0, 0];
        bytes.extend((text.len() as u32).to_be_bytes());
        bytes.extend(text.as_bytes());
        bytes
    }

    #[test]
    fn lines_come_whole_however_they_were_cut_up() {
        let bytes = [frame(1, "one\ntw"), frame(2, "oops\n"), frame(1, "o\nlast")].concat();
        for size in [1, 3, 7, 1000] {
            let mut frames = Frames::default();
            for part in bytes.chunks(size) {
                frames.feed(part).unwrap();
            }
            frames.end();
            let lines: Vec<String> = frames
                .lines
                .iter()
                .map(|(source, line)| format!("{source} {line}"))
                .collect();
            assert_eq!(
                lines,
                ["stdout one", "stderr oops", "stdout two", "stdout last"]
            );
        }
    }

    #[test]
    fn what_is_no_frame_is_not_guessed_at_and_long_lines_are_bounded() {
        let mut frames = Frames::default();
        assert_eq!(frames.feed(b"HTTP/1.1 500 what"), None);
        let mut frames = Frames::default();
        frames.feed(&frame(1, &"x".repeat(20_000))).unwrap();
        frames.end();
        let lengths: Vec<usize> = frames.lines.iter().map(|(_, line)| line.len()).collect();
        assert_eq!(lengths, [8192, 8192, 3616]);
    }
}
