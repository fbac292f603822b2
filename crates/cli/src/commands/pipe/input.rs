//! The lines that come in: requests from standard input, each with a bounded length.

use cellblock::pipe::MAX_LINE_BYTES;
use std::io::{self, BufRead, BufReader};
use std::thread;
use tokio::io::AsyncBufReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

/// Lines that were read ahead. Each may have 16 MB.
const MAX_LINES_AHEAD: usize = 2;
const BUFFER_BYTES: usize = 64 << 10;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InputLine {
    /// It without its newline; of one that is too long, the beginning.
    pub(crate) text: Vec<u8>,
    /// How long it was.
    pub(crate) bytes: u64,
}

/// The lines of standard input.
#[derive(Debug)]
pub(crate) enum InputLines {
    /// Of a pipe: the task that serves a line has read it, which saves waking another thread.
    Pipe(tokio::io::BufReader<pipe::Receiver>),
    /// Of anything else, such as a file or a terminal: a thread reads.
    Threaded(mpsc::Receiver<InputLine>),
}

impl InputLines {
    /// Begins to read standard input. Only within a runtime.
    pub(crate) fn start() -> io::Result<InputLines> {
        // Opened anew: reads of the descriptor that was inherited must go on to wait for other processes that share it.
        match pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
            Ok(input) => Ok(InputLines::Pipe(tokio::io::BufReader::with_capacity(
                BUFFER_BYTES,
                input,
            ))),
            Err(_) => Ok(InputLines::Threaded(start_thread()?)),
        }
    }

    /// The next line, or `None` at the end of the input. An input that cannot be read has ended.
    pub(crate) async fn next(&mut self) -> Option<InputLine> {
        match self {
            InputLines::Pipe(input) => {
                let mut begun = BegunLine::new(MAX_LINE_BYTES);
                loop {
                    let buffer = input.fill_buf().await.ok()?;
                    if buffer.is_empty() {
                        return begun.at_the_end();
                    }
                    let (used, is_whole) = begun.take(buffer);
                    input.consume(used);
                    if is_whole {
                        return Some(begun.line);
                    }
                }
            }
            InputLines::Threaded(lines) => lines.recv().await,
        }
    }
}

fn start_thread() -> io::Result<mpsc::Receiver<InputLine>> {
    let (sender, lines) = mpsc::channel(MAX_LINES_AHEAD);
    let thread = thread::Builder::new().name("input".to_owned());
    thread.spawn(move || {
        let mut input = BufReader::with_capacity(BUFFER_BYTES, io::stdin());
        while let Ok(Some(line)) = read_line(&mut input, MAX_LINE_BYTES) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    })?;
    Ok(lines)
}

/// The next line, or `None` at the end. Of a line that has more than `most` bytes, one byte more than that is kept.
fn read_line(input: &mut impl BufRead, most: usize) -> io::Result<Option<InputLine>> {
    let mut begun = BegunLine::new(most);
    loop {
        let buffer = match input.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if buffer.is_empty() {
            return Ok(begun.at_the_end());
        }
        let (used, is_whole) = begun.take(buffer);
        input.consume(used);
        if is_whole {
            return Ok(Some(begun.line));
        }
    }
}

/// A line whose newline has not come yet.
struct BegunLine {
    line: InputLine,
    most: usize,
}

impl BegunLine {
    fn new(most: usize) -> BegunLine {
        let line = InputLine {
            text: Vec::new(),
            bytes: 0,
        };
        BegunLine { line, most }
    }

    /// Adds bytes up to the newline. Says how many were used, the newline included, and whether it came.
    fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        let newline = bytes.iter().position(|byte| *byte == b'\n');
        let part = &bytes[..newline.unwrap_or(bytes.len())];
        let room = (self.most + 1).saturating_sub(self.line.text.len());
        let kept = &part[..part.len().min(room)];
        self.line.text.extend_from_slice(kept);
        self.line.bytes += part.len() as u64;
        (
            part.len() + usize::from(newline.is_some()),
            newline.is_some(),
        )
    }

    /// The line at the end of the input: there may be one without a newline.
    fn at_the_end(self) -> Option<InputLine> {
        (self.line.bytes > 0).then_some(self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, capacity: usize, most: usize) -> Vec<(String, u64)> {
        let mut input = BufReader::with_capacity(capacity, text.as_bytes());
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut input, most).unwrap() {
            lines.push((String::from_utf8(line.text).unwrap(), line.bytes));
        }
        lines
    }

    #[test]
    fn lines_are_whole_whatever_the_buffer() {
        for capacity in 1..8 {
            let expected =
                [("ab", 2), ("", 0), ("cde", 3)].map(|(text, bytes)| (text.to_owned(), bytes));
            assert_eq!(lines("ab\n\ncde", capacity, 10), expected);
        }
    }

    #[test]
    fn of_a_long_line_only_the_beginning_is_kept_and_the_next_one_is_whole() {
        let expected = [("abcd".to_owned(), 7), ("h".to_owned(), 1)];
        assert_eq!(lines("abcdefg\nh\n", 2, 3), expected);
    }
}
