//! The lines that go out: responses to standard output.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock::pipe::{RequestId, Response};
use cellblock::visible_json;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Read, Seek as _, SeekFrom, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Lines that wait to be written. When as many wait, sessions wait, and with them the code that prints.
const MAX_QUEUED_LINES: usize = 64;
/// Bytes of lines that wait to be written; a longer line waits alone.
const MAX_WAITING_BYTES: u32 = 32 << 20;

/// Takes lines from everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    /// `None` means that no more lines come.
    lines: mpsc::Sender<Option<WaitingLine>>,
    /// A permit for each byte that may wait.
    bytes: Arc<Semaphore>,
    direct: Arc<DirectOutput>,
}

/// What waits to be written.
#[derive(Debug)]
enum OutputLine {
    /// A line, and the room that it takes while it waits.
    Text(String, Option<OwnedSemaphorePermit>),
    /// The answer that is a part of a file.
    File(Option<RequestId>, String, FilePart),
}

/// A line for the thread, which is counted until it is written.
type WaitingLine = (OutputLine, UnwrittenLine);

impl Writer {
    /// Writes one line. When the reader is gone the line is lost, and the pipe is about to end.
    pub(crate) async fn send(&self, response: Response) {
        let line = response.to_line();
        if self.direct.try_write(line.as_bytes()) {
            return;
        }
        let waiting = UnwrittenLine::new(&self.direct);
        let size =
            u32::try_from(line.len()).map_or(MAX_WAITING_BYTES, |size| size.min(MAX_WAITING_BYTES));
        // The semaphore is never closed.
        let room = Arc::clone(&self.bytes).acquire_many_owned(size).await.ok();
        let line = OutputLine::Text(line, room);
        let _ = self.lines.send(Some((line, waiting))).await;
    }

    /// Writes the line that has a part of a file in it. It is read as it is written.
    pub(crate) async fn send_file(&self, id: Option<RequestId>, session: String, part: FilePart) {
        let line = OutputLine::File(id, session, part);
        let waiting = UnwrittenLine::new(&self.direct);
        let _ = self.lines.send(Some((line, waiting))).await;
    }

    /// No more lines come.
    pub(crate) async fn finish(&self) {
        let _ = self.lines.send(None).await;
    }
}

/// The most bytes that a pipe takes whole, without waiting, when it takes any.
const PIPE_BYTES: usize = 4096;

/// Standard output, where a short line can be written at once: it saves waking the thread that writes.
#[derive(Debug)]
struct DirectOutput {
    /// Whether the kernel says of this output how much can be written without waiting.
    is_pipe: bool,
    /// Held while something is written.
    gate: Mutex<()>,
    /// The lines that the thread has not written.
    waiting: AtomicUsize,
}

impl DirectOutput {
    #[expect(clippy::disallowed_methods, reason = "the kind of the descriptor")]
    fn new() -> DirectOutput {
        let kind =
            rustix::fs::fstat(io::stdout()).map(|stat| FileType::from_raw_mode(stat.st_mode));
        DirectOutput {
            is_pipe: kind.is_ok_and(|kind| kind == FileType::Fifo),
            gate: Mutex::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Writes a line, if that needs no waiting and overtakes no other line. Whether it did.
    #[expect(
        clippy::disallowed_methods,
        reason = "a line of JSON, never to a terminal"
    )]
    fn try_write(&self, line: &[u8]) -> bool {
        if !self.is_pipe || line.len() > PIPE_BYTES {
            return false;
        }
        let Ok(_gate) = self.gate.try_lock() else {
            return false;
        };
        // A problem is left to the thread, which ends the pipe.
        self.waiting.load(Ordering::SeqCst) == 0
            && has_room(io::stdout())
            && rustix::io::write(io::stdout(), line).is_ok_and(|written| written == line.len())
    }
}

/// Whether a write of [`PIPE_BYTES`] to a pipe would not wait.
fn has_room(output: impl AsFd) -> bool {
    const NO_TIME: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut asked = [PollFd::new(&output, PollFlags::OUT)];
    poll(&mut asked, Some(&NO_TIME)).is_ok_and(|ready| ready > 0)
        && asked[0].revents() == PollFlags::OUT
}

/// A line that the thread has not written yet. As long as there is one, no later line is written past it.
#[derive(Debug)]
struct UnwrittenLine(Arc<DirectOutput>);

impl UnwrittenLine {
    fn new(output: &Arc<DirectOutput>) -> UnwrittenLine {
        output.waiting.fetch_add(1, Ordering::SeqCst);
        UnwrittenLine(Arc::clone(output))
    }
}

impl Drop for UnwrittenLine {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// For which reader lines are written.
#[derive(Clone, Copy)]
enum OutputReader {
    Person,
    Program,
}

impl OutputLine {
    fn write_to(self, out: &mut impl Write, reader: OutputReader) -> io::Result<()> {
        match self {
            OutputLine::Text(line, _room) => match reader {
                OutputReader::Person => out.write_all(visible_json(&line).as_bytes()),
                OutputReader::Program => out.write_all(line.as_bytes()),
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
    let (lines, mut waiting) = mpsc::channel::<Option<WaitingLine>>(MAX_QUEUED_LINES);
    let (ended, end) = oneshot::channel();
    let direct = Arc::new(DirectOutput::new());
    let output = Arc::clone(&direct);
    let thread = thread::Builder::new().name("output".to_owned());
    thread.spawn(move || {
        // Its only reader is told by the end of the channel.
        let _ = write_all(&mut waiting, &output.gate);
        let _ = ended.send(());
    })?;
    let written = async {
        let _ = end.await;
    };
    let bytes = Arc::new(Semaphore::new(MAX_WAITING_BYTES as usize));
    let writer = Writer {
        lines,
        bytes,
        direct,
    };
    Ok((writer, written))
}

#[expect(
    clippy::disallowed_methods,
    reason = "lines of JSON, escaped at a terminal"
)]
fn write_all(
    waiting: &mut mpsc::Receiver<Option<WaitingLine>>,
    gate: &Mutex<()>,
) -> io::Result<()> {
    // A person who tries the pipe at a terminal sees what programs get, but what is hidden in it is escaped.
    let reader = if io::stdout().is_terminal() {
        OutputReader::Person
    } else {
        OutputReader::Program
    };
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    write_lines(waiting, gate, &mut out, reader)
}

fn write_lines(
    waiting: &mut mpsc::Receiver<Option<WaitingLine>>,
    gate: &Mutex<()>,
    out: &mut impl Write,
    reader: OutputReader,
) -> io::Result<()> {
    let mut next = waiting.blocking_recv();
    while let Some(Some(line)) = next {
        next = write_together(line, waiting, gate, out, reader)?;
        if next.is_none() {
            // The gate is open while no line waits, so that short lines need not come by here.
            next = waiting.blocking_recv();
        }
    }
    out.flush()
}

/// Writes a line, and with it those that wait already. Returns what stands in the queue where that is the end of the lines.
fn write_together(
    first: WaitingLine,
    waiting: &mut mpsc::Receiver<Option<WaitingLine>>,
    gate: &Mutex<()>,
    out: &mut impl Write,
    reader: OutputReader,
) -> io::Result<Option<Option<WaitingLine>>> {
    let _gate = gate.lock().unwrap_or_else(PoisonError::into_inner);
    let mut unflushed = Vec::new();
    let mut next = Some(Some(first));
    while let Some(Some((line, waiting_line))) = next {
        line.write_to(out, reader)?;
        unflushed.push(waiting_line);
        next = waiting.try_recv().ok();
    }
    out.flush()?;
    Ok(next)
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
mod direct_output_tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn short_lines_are_written_directly_again_after_the_thread_has_written() {
        let (lines, mut waiting) = mpsc::channel(1);
        let direct = Arc::new(DirectOutput::new());
        let output = Arc::clone(&direct);
        let thread = thread::spawn(move || {
            let mut out = Vec::new();
            write_lines(&mut waiting, &output.gate, &mut out, OutputReader::Program).unwrap();
            out
        });
        let line = OutputLine::Text("long\n".to_owned(), None);
        let line = Some((line, UnwrittenLine::new(&direct)));
        lines.blocking_send(line).unwrap();
        let begun = Instant::now();
        while direct.waiting.load(Ordering::SeqCst) > 0 || direct.gate.try_lock().is_err() {
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "the thread keeps the gate closed while it has nothing to write"
            );
            thread::yield_now();
        }
        lines.blocking_send(None).unwrap();
        assert_eq!(thread.join().unwrap(), b"long\n");
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
