//! The output of a container's processes, line by line.

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use std::collections::VecDeque;
use std::fmt;
use tokio::io::AsyncReadExt as _;

/// The longest line; a longer one comes in pieces.
const MAX_LINE_BYTES: usize = 8 << 10;
/// The longest frame that an engine sends.
const MAX_FRAME_BYTES: usize = 16 << 20;
const FRAME_HEADER_BYTES: usize = 8;

/// The stream that a line was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl fmt::Display for OutputStream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            OutputStream::Stdout => "stdout",
            OutputStream::Stderr => "stderr",
        })
    }
}

/// One line of output, without its newline. A line longer than 8 KiB comes as several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLine {
    /// The stream that the line was written to.
    pub stream: OutputStream,
    /// The text; bytes that are not UTF-8 are replaced.
    pub text: String,
}

/// A container's standard output and error. Made by [`Container::attach`](crate::Container::attach).
#[derive(Debug)]
pub struct Output {
    connection: TokioIo<Upgraded>,
    decoder: FrameDecoder,
}

impl Output {
    pub(crate) fn new(connection: Upgraded) -> Output {
        Output {
            connection: TokioIo::new(connection),
            decoder: FrameDecoder::default(),
        }
    }

    /// The next line; `None` at the end of the output. Dropping the future loses no line.
    pub async fn next_line(&mut self) -> Option<OutputLine> {
        loop {
            if let Some(line) = self.decoder.lines.pop_front() {
                return Some(line);
            }
            let mut buffer = [0; 8 << 10];
            match self.connection.read(&mut buffer).await {
                Ok(read) if read > 0 => self.decoder.decode(&buffer[..read])?,
                _ => {
                    self.decoder.finish();
                    return self.decoder.lines.pop_front();
                }
            }
        }
    }
}

/// Decodes the engine's framing (the number of the stream, three zero bytes, a length, the bytes) into
/// lines.
#[derive(Debug, Default)]
struct FrameDecoder {
    buffer: Vec<u8>,
    /// The incomplete line of each stream.
    unfinished: [Vec<u8>; 2],
    lines: VecDeque<OutputLine>,
}

impl FrameDecoder {
    /// Takes the next bytes. `None` where the bytes are no frames.
    fn decode(&mut self, bytes: &[u8]) -> Option<()> {
        self.buffer.extend_from_slice(bytes);
        while let Some((header, rest)) = self.buffer.split_first_chunk::<FRAME_HEADER_BYTES>() {
            let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]) as usize;
            if length > MAX_FRAME_BYTES || header[1..4] != [0, 0, 0] {
                return None;
            }
            let stream = match header[0] {
                2 => OutputStream::Stderr,
                _ => OutputStream::Stdout,
            };
            let Some(payload) = rest.get(..length) else {
                break;
            };
            let payload = payload.to_vec();
            self.buffer.drain(..FRAME_HEADER_BYTES + length);
            self.split_lines(stream, &payload);
        }
        Some(())
    }

    fn split_lines(&mut self, stream: OutputStream, payload: &[u8]) {
        for byte in payload {
            let unfinished = &mut self.unfinished[stream as usize];
            if *byte != b'\n' {
                unfinished.push(*byte);
            }
            if *byte == b'\n' || unfinished.len() >= MAX_LINE_BYTES {
                self.end_line(stream);
            }
        }
    }

    fn end_line(&mut self, stream: OutputStream) {
        let bytes = std::mem::take(&mut self.unfinished[stream as usize]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        self.lines.push_back(OutputLine { stream, text });
    }

    /// At the end of the output an incomplete line counts as a line.
    fn finish(&mut self) {
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            if !self.unfinished[stream as usize].is_empty() {
                self.end_line(stream);
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
    fn lines_are_whole_however_the_bytes_arrive() {
        let bytes = [frame(1, "one\ntw"), frame(2, "oops\n"), frame(1, "o\nlast")].concat();
        for size in [1, 3, 7, 1000] {
            let mut decoder = FrameDecoder::default();
            for part in bytes.chunks(size) {
                decoder.decode(part).unwrap();
            }
            decoder.finish();
            let lines: Vec<String> = decoder
                .lines
                .iter()
                .map(|line| format!("{} {}", line.stream, line.text))
                .collect();
            assert_eq!(
                lines,
                ["stdout one", "stderr oops", "stdout two", "stdout last"]
            );
        }
    }

    #[test]
    fn bytes_that_are_no_frames_are_refused_and_long_lines_are_split() {
        let mut decoder = FrameDecoder::default();
        assert_eq!(decoder.decode(b"HTTP/1.1 500 what"), None);
        let mut decoder = FrameDecoder::default();
        decoder.decode(&frame(1, &"x".repeat(20_000))).unwrap();
        decoder.finish();
        let lengths: Vec<usize> = decoder.lines.iter().map(|line| line.text.len()).collect();
        assert_eq!(lengths, [8192, 8192, 3616]);
    }
}
