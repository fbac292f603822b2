//! The lines that go out: whole ones, from one thread, no faster than they are read.

use super::file_part::FilePart;
use cellblock::pipe::{RequestId, Response};
use cellblock::visible_json;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::sync::Arc;
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
    lines: mpsc::Sender<Option<Line>>,
    /// A permit for each byte that may wait.
    bytes: Arc<Semaphore>,
}

/// What waits to be written.
#[derive(Debug)]
enum Line {
    /// A line, and the room that it takes while it waits.
    Text(String, Option<OwnedSemaphorePermit>),
    /// The answer that is a part of a file.
    File(Option<RequestId>, String, FilePart),
}

impl Writer {
    /// Writes one line. When nobody reads any more it is lost, and the pipe is about to end.
    pub(crate) async fn send(&self, response: Response) {
        let line = response.to_line();
        let size =
            u32::try_from(line.len()).map_or(MAX_WAITING_BYTES, |size| size.min(MAX_WAITING_BYTES));
        // The semaphore is never closed.
        let room = Arc::clone(&self.bytes).acquire_many_owned(size).await.ok();
        let _ = self.lines.send(Some(Line::Text(line, room))).await;
    }

    /// Writes the line that has a part of a file in it. It is read as it is written.
    pub(crate) async fn send_file(&self, id: Option<RequestId>, session: String, part: FilePart) {
        let _ = self.lines.send(Some(Line::File(id, session, part))).await;
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

impl Line {
    fn write_to(self, out: &mut impl Write, reader: Reader) -> io::Result<()> {
        match self {
            Line::Text(line, _room) => match reader {
                Reader::Person => out.write_all(visible_json(&line).as_bytes()),
                Reader::Program => out.write_all(line.as_bytes()),
            },
            // A part of a file is base64.
            Line::File(id, session, part) => {
                let (before, after) = Response::file_line(id, session);
                out.write_all(before.as_bytes())?;
                let (size, problem) = part.write_to(out)?;
                let problem = problem.map(|problem| problem.to_string());
                out.write_all(after(size, problem.as_deref()).as_bytes())
            }
        }
    }
}

/// Starts the thread. The future ends when everything is written, or when nobody reads any more.
pub(crate) fn start() -> io::Result<(Writer, impl Future<Output = ()>)> {
    let (lines, mut waiting) = mpsc::channel::<Option<Line>>(MAX_QUEUED_LINES);
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
fn write_all(waiting: &mut mpsc::Receiver<Option<Line>>) -> io::Result<()> {
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
