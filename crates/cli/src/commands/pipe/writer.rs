//! The lines that go out: whole ones, from one thread, no faster than they are read.

use cellblock::pipe::Response;
use cellblock::visible_json;

use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::thread;
use tokio::sync::{mpsc, oneshot};

/// Lines that wait to be written. When as many wait, sessions wait, and with them the code that prints.
const MOST_WAITING: usize = 64;

/// Takes lines from everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    /// `None` means that no more lines come.
    lines: mpsc::Sender<Option<String>>,
}

impl Writer {
    /// Writes one line. When nobody reads any more it is lost, and the pipe is about to end.
    pub(crate) async fn send(&self, response: Response) {
        let _ = self.lines.send(Some(response.to_line())).await;
    }

    /// No more lines come.
    pub(crate) async fn finish(&self) {
        let _ = self.lines.send(None).await;
    }
}

/// Starts the thread. The future ends when everything is written, or when nobody reads any more.
pub(crate) fn start() -> (Writer, impl Future<Output = ()>) {
    let (lines, mut waiting) = mpsc::channel::<Option<String>>(MOST_WAITING);
    let (ended, end) = oneshot::channel();
    thread::spawn(move || {
        // Its only reader is told by the end of the channel.
        let _ = write_all(&mut waiting);
        let _ = ended.send(());
    });
    (Writer { lines }, async {
        let _ = end.await;
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "lines of JSON, escaped at a terminal"
)]
fn write_all(waiting: &mut mpsc::Receiver<Option<String>>) -> io::Result<()> {
    let is_terminal = io::stdout().is_terminal();
    // A person who tries the pipe at a terminal sees what programs get, but what is hidden in it is escaped.
    let shown = |line: String| match is_terminal {
        true => visible_json(&line).into_owned(),
        false => line,
    };
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    while let Some(Some(line)) = waiting.blocking_recv() {
        out.write_all(shown(line).as_bytes())?;
        // What waits already goes out together.
        loop {
            match waiting.try_recv() {
                Ok(Some(line)) => out.write_all(shown(line).as_bytes())?,
                Ok(None) => return out.flush(),
                Err(_) => break,
            }
        }
        out.flush()?;
    }
    out.flush()
}
