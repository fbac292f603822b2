//! The lines that come in, none of them too long for our memory.

use cellblock::pipe::MAX_LINE_BYTES;
use std::io::{self, BufRead, BufReader};
use std::thread;
use tokio::sync::mpsc;

/// Lines that were read ahead. Each may have 16 MB.
const AHEAD: usize = 2;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// It without its newline; of one that is too long, the beginning.
    pub(crate) text: Vec<u8>,
    /// How long it was.
    pub(crate) bytes: u64,
}

/// Reads standard input on a thread of its own. The lines end where the input does.
pub(crate) fn start() -> io::Result<mpsc::Receiver<Line>> {
    let (sender, lines) = mpsc::channel(AHEAD);
    let thread = thread::Builder::new().name("input".to_owned());
    thread.spawn(move || {
        let mut input = BufReader::with_capacity(64 << 10, io::stdin());
        // An input that cannot be read has ended.
        while let Ok(Some(line)) = read_line(&mut input, MAX_LINE_BYTES) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    })?;
    Ok(lines)
}

/// The next line, or `None` at the end. Of a line that has more than `most` bytes, one byte more than that is kept.
fn read_line(input: &mut impl BufRead, most: usize) -> io::Result<Option<Line>> {
    let mut line = Line {
        text: Vec::new(),
        bytes: 0,
    };
    loop {
        let buffer = match input.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if buffer.is_empty() {
            return Ok((line.bytes > 0).then_some(line));
        }
        let newline = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..newline.unwrap_or(buffer.len())];
        let room = (most + 1).saturating_sub(line.text.len());
        line.text.extend_from_slice(&part[..part.len().min(room)]);
        line.bytes += part.len() as u64;
        let used = part.len() + usize::from(newline.is_some());
        input.consume(used);
        if newline.is_some() {
            return Ok(Some(line));
        }
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
