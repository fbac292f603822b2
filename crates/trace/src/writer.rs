//! The thread that writes, so that no run waits for a disk.

use crate::rotating::RotatingFile;
use crate::{Caps, Rotation, Secrets, TraceLayer};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Lines that wait at most. What comes while there are more is dropped, and counted.
const WAITING: usize = 4096;

/// How long the end of the program waits for the last lines.
const PATIENCE: Duration = Duration::from_secs(2);

/// A trace that is being written. When it is dropped, what was sent so far is written.
pub struct TraceFile {
    lines: Lines,
}

/// The way to the thread.
#[derive(Clone)]
pub(crate) struct Lines {
    sender: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

enum Message {
    Line(Vec<u8>),
    /// Answered when all before it is written.
    Flush(SyncSender<()>),
}

impl TraceFile {
    /// Opens the file and starts the thread. The layer goes into a subscriber of `tracing`.
    pub fn start(
        path: &Path,
        rotation: Rotation,
        caps: Caps,
        secrets: Secrets,
    ) -> io::Result<(Self, TraceLayer)> {
        let file = RotatingFile::open(path, rotation)?;
        let (sender, messages) = sync_channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let lines = Lines {
            sender,
            dropped: Arc::clone(&dropped),
        };
        let thread = std::thread::Builder::new().name("trace".into());
        thread.spawn(move || write_all(file, &messages, &dropped))?;
        let layer = TraceLayer {
            lines: lines.clone(),
            caps,
            secrets,
        };
        Ok((Self { lines }, layer))
    }

    /// Waits until all that was sent is written, but not for ever.
    pub fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.lines.sender.try_send(Message::Flush(done)).is_ok() {
            let _ = written.recv_timeout(PATIENCE);
        }
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Lines {
    pub(crate) fn send(&self, line: Vec<u8>) {
        if self.sender.try_send(Message::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_all(mut file: RotatingFile, messages: &Receiver<Message>, dropped: &AtomicU64) {
    while let Ok(message) = messages.recv() {
        match message {
            Message::Line(line) => {
                if file.write(&line).is_err() {
                    dropped.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                let lost = dropped.swap(0, Ordering::Relaxed);
                if lost > 0 && file.write(&lost_line(lost)).is_err() {
                    dropped.fetch_add(lost, Ordering::Relaxed);
                }
            }
            Message::Flush(done) => {
                let _ = done.try_send(());
            }
        }
    }
}

fn lost_line(lost: u64) -> Vec<u8> {
    let pid = std::process::id();
    let record = serde_json::json!({
        "at": 0.0, "name": format!("{lost} lines could not be written here"),
        "pid": pid, "level": "WARN", "target": "cellblock_trace",
    });
    format!("{record}\n").into_bytes()
}
