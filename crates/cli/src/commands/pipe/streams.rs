//! The lines of the pipe: requests from standard input, each with a bounded length, and responses to standard output.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock::pipe::{MAX_LINE_BYTES, RequestId, Response};
use cellblock::visible_json;
use std::fs::File;
use std::io::{
    self, BufRead, BufReader, BufWriter, IsTerminal as _, Read, Seek as _, SeekFrom, Write,
};
use std::sync::Arc;
use std::thread;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Lines that were read ahead. Each may have 16 MB.
const MAX_LINES_AHEAD: usize = 2;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InputLine {
    /// It without its newline; of one that is too long, the beginning.
    pub(crate) text: Vec<u8>,
    /// How long it was.
    pub(crate) bytes: u64,
}

/// Reads standard input on a thread of its own. The lines end where the input does.
pub(crate) fn start_reading() -> io::Result<mpsc::Receiver<InputLine>> {
    let (sender, lines) = mpsc::channel(MAX_LINES_AHEAD);
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
fn read_line(input: &mut impl BufRead, most: usize) -> io::Result<Option<InputLine>> {
    let mut line = InputLine {
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

/// Lines that wait to be written. When as many wait, sessions wait, and with them the code that prints.
const MAX_QUEUED_LINES: usize = 64;
/// Bytes of lines that wait to be written; a longer line waits alone.
const MAX_WAITING_BYTES: u32 = 32 << 20;

/// Takes lines from everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    /// `None` means that no more lines come.
    lines: mpsc::Sender<Option<OutputLine>>,
    /// A permit for each byte that may wait.
    bytes: Arc<Semaphore>,
}

/// What waits to be written.
#[derive(Debug)]
enum OutputLine {
    /// A line, and the room that it takes while it waits.
    Text(String, Option<OwnedSemaphorePermit>),
    /// The answer that is a part of a file.
    File(Option<RequestId>, String, FilePart),
}

impl Writer {
    /// Writes one line. When the reader is gone the line is lost, and the pipe is about to end.
    pub(crate) async fn send(&self, response: Response) {
        let line = response.to_line();
        let size =
            u32::try_from(line.len()).map_or(MAX_WAITING_BYTES, |size| size.min(MAX_WAITING_BYTES));
        // The semaphore is never closed.
        let room = Arc::clone(&self.bytes).acquire_many_owned(size).await.ok();
        let _ = self.lines.send(Some(OutputLine::Text(line, room))).await;
    }

    /// Writes the line that has a part of a file in it. It is read as it is written.
    pub(crate) async fn send_file(&self, id: Option<RequestId>, session: String, part: FilePart) {
        let _ = self
            .lines
            .send(Some(OutputLine::File(id, session, part)))
            .await;
    }

    /// No more lines come.
    pub(crate) async fn finish(&self) {
        let _ = self.lines.send(None).await;
    }
}

/// For which reader lines are written.
#[derive(Clone, Copy)]
enum Reader {
    Person,
    Program,
}

impl OutputLine {
    fn write_to(self, out: &mut impl Write, reader: Reader) -> io::Result<()> {
        match self {
            OutputLine::Text(line, _room) => match reader {
                Reader::Person => out.write_all(visible_json(&line).as_bytes()),
                Reader::Program => out.write_all(line.as_bytes()),
            },
            // A part of a file is base64.
            OutputLine::File(id, session, part) => {
                let (before, after) = Response::file_line(id, session);
                out.write_all(before.as_bytes())?;
                let (size, problem) = part.write_to(out)?;
                let problem = problem.map(|problem| problem.to_string());
                out.write_all(after(size, problem.as_deref()).as_bytes())
            }
        }
    }
}

/// Starts the thread that writes. The future ends when everything is written, or when the reader is gone.
pub(crate) fn start_writing() -> io::Result<(Writer, impl Future<Output = ()>)> {
    let (lines, mut waiting) = mpsc::channel::<Option<OutputLine>>(MAX_QUEUED_LINES);
    let (ended, end) = oneshot::channel();
    let thread = thread::Builder::new().name("output".to_owned());
    thread.spawn(move || {
        // Its only reader is told by the end of the channel.
        let _ = write_all(&mut waiting);
        let _ = ended.send(());
    })?;
    let written = async {
        let _ = end.await;
    };
    let bytes = Arc::new(Semaphore::new(MAX_WAITING_BYTES as usize));
    Ok((Writer { lines, bytes }, written))
}

#[expect(
    clippy::disallowed_methods,
    reason = "lines of JSON, escaped at a terminal"
)]
fn write_all(waiting: &mut mpsc::Receiver<Option<OutputLine>>) -> io::Result<()> {
    // A person who tries the pipe at a terminal sees what programs get, but what is hidden in it is escaped.
    let reader = if io::stdout().is_terminal() {
        Reader::Person
    } else {
        Reader::Program
    };
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    while let Some(Some(line)) = waiting.blocking_recv() {
        line.write_to(&mut out, reader)?;
        // What waits already goes out together.
        loop {
            match waiting.try_recv() {
                Ok(Some(line)) => line.write_to(&mut out, reader)?,
                Ok(None) => return out.flush(),
                Err(_) => break,
            }
        }
        out.flush()?;
    }
    out.flush()
}

/// The most bytes of a file in an answer.
const MAX_PART_BYTES: u64 = 1 << 30;
/// How much is read at a time. A multiple of three, so that each piece is whole in base64.
const PIECE_BYTES: usize = 48 << 10;

/// A part of a file.
#[derive(Debug)]
pub(crate) struct FilePart {
    file: File,
    length: u64,
}

impl FilePart {
    /// The part from `offset` on; without a length, up to the end.
    pub(crate) fn new(mut file: File, offset: u64, length: Option<u64>) -> io::Result<FilePart> {
        let left = file.metadata()?.len().saturating_sub(offset);
        if length.is_none() && left > MAX_PART_BYTES {
            return Err(io::Error::other(format!(
                "it has {left} bytes, and at most {MAX_PART_BYTES} are read at once; read it in parts, with `offset` and `length`"
            )));
        }
        file.seek(SeekFrom::Start(offset))?;
        let length = length.unwrap_or(MAX_PART_BYTES).min(MAX_PART_BYTES);
        Ok(FilePart { file, length })
    }

    /// Writes it as base64. Returns how many bytes it was, and what was wrong if it could not be read to its end.
    pub(crate) fn write_to(self, out: &mut impl Write) -> io::Result<(u64, Option<io::Error>)> {
        let mut rest = self.file.take(self.length);
        let mut piece = vec![0; PIECE_BYTES];
        let mut text = String::new();
        let mut size = 0;
        loop {
            let (filled, problem) = fill(&mut rest, &mut piece);
            text.clear();
            STANDARD.encode_string(&piece[..filled], &mut text);
            out.write_all(text.as_bytes())?;
            size += filled as u64;
            if filled < PIECE_BYTES {
                return Ok((size, problem));
            }
        }
    }
}

/// Reads until the piece is full or there is no more.
fn fill(file: &mut impl Read, piece: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut filled = 0;
    while filled < piece.len() {
        match file.read(&mut piece[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Some(error)),
        }
    }
    (filled, None)
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

#[cfg(test)]
mod file_part_tests {
    use super::*;

    #[test]
    fn a_file_is_the_same_in_pieces() {
        let contents: Vec<u8> = (0..=255).cycle().take(3 * PIECE_BYTES + 100).collect();
        for (offset, length) in [
            (0, None),
            (7, None),
            (0, Some(PIECE_BYTES)),
            (5, Some(PIECE_BYTES + 1)),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&contents).unwrap();
            let part = FilePart::new(file, offset as u64, length.map(|length| length as u64));
            let mut out = Vec::new();
            let (size, problem) = part.unwrap().write_to(&mut out).unwrap();
            let end = length.map_or(contents.len(), |length| offset + length);
            assert_eq!(out, STANDARD.encode(&contents[offset..end]).as_bytes());
            assert_eq!((size as usize, problem.is_none()), (end - offset, true));
        }
    }

    #[test]
    fn what_is_too_large_for_one_answer_is_refused_as_a_whole() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MAX_PART_BYTES + 1).unwrap();
        let whole = FilePart::new(file.try_clone().unwrap(), 0, None);
        let message = whole.unwrap_err().to_string();
        assert!(message.ends_with("with `offset` and `length`"), "{message}");
        let part = FilePart::new(file, MAX_PART_BYTES, None).unwrap();
        assert_eq!(part.write_to(&mut Vec::new()).unwrap().0, 1);
    }
}
