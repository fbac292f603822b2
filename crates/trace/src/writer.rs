//! The thread that writes a trace, and the trace of a whole program.

use crate::layer::{TraceLayer, ValueLimits};
use crate::secrets::SecretFilter;
use cellblock_records::{RotatingFile, Rotation};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;

/// The path of the trace in a state directory.
pub fn trace_path(state: &Path) -> PathBuf {
    state.join("trace.jsonl")
}

/// Starts to write the trace of the whole program into this state directory. Keep the writer until the program ends.
///
/// Returns `None` where the directory cannot be written or another subscriber is installed already. The program then goes on
/// without a trace.
pub fn start(state: &Path) -> Option<TraceWriter> {
    // A variable that is not UTF-8 cannot stand in a text.
    let variables = std::env::vars_os();
    let variables = variables.filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        Some((name, value.into_string().ok()?))
    });
    let options = TraceOptions {
        secrets: SecretFilter::from_environment(variables),
        ..TraceOptions::default()
    };
    let writer = TraceWriter::start(&trace_path(state), options).ok()?;
    let layer = writer.layer().with_filter(default_targets());
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).ok()?;
    Some(writer)
}

/// The filter for traces: Cellblock's own spans and events from `INFO` on, and warnings of libraries, which at `INFO` would report
/// every connection they make.
pub fn default_targets() -> Targets {
    Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("cellblock", LevelFilter::INFO)
}

/// The lines that may wait for the thread. When more are waiting, new ones are dropped and counted.
const MAX_QUEUED_LINES: usize = 4096;

/// How long [`TraceWriter::flush`] waits for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Writes a trace to a file, on a thread of its own, so that no run waits for a disk.
///
/// Dropping the writer flushes it, but its layers go on: the thread ends with the last of them.
pub struct TraceWriter {
    queue: LineQueue,
    limits: ValueLimits,
    secrets: SecretFilter,
}

/// How a trace is written.
#[derive(Clone, Debug, Default)]
pub struct TraceOptions {
    /// When a new file begins, and how many older files are kept.
    pub rotation: Rotation,
    /// How much of each value is written.
    pub limits: ValueLimits,
    /// What is never written.
    pub secrets: SecretFilter,
}

/// The queue to the thread that writes.
#[derive(Clone)]
pub(crate) struct LineQueue {
    sender: SyncSender<WriterMessage>,
    dropped: Arc<AtomicU64>,
}

enum WriterMessage {
    Line(Vec<u8>),
    /// Answered when all lines before it are written.
    Flush(SyncSender<()>),
}

impl TraceWriter {
    /// Opens the file and starts the thread that writes it.
    pub fn start(path: &Path, options: TraceOptions) -> io::Result<TraceWriter> {
        let file = RotatingFile::open(path, options.rotation)?;
        let (sender, messages) = sync_channel(MAX_QUEUED_LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let queue = LineQueue {
            sender,
            dropped: Arc::clone(&dropped),
        };
        let thread = std::thread::Builder::new().name("trace".into());
        thread.spawn(move || write_all(file, &messages, &dropped))?;
        Ok(TraceWriter {
            queue,
            limits: options.limits,
            secrets: options.secrets,
        })
    }

    /// A layer for a subscriber of `tracing`. Use it with the filter [`default_targets`].
    pub fn layer(&self) -> TraceLayer {
        TraceLayer {
            queue: self.queue.clone(),
            limits: self.limits,
            secrets: self.secrets.clone(),
        }
    }

    /// Waits until all lines so far are written, for two seconds at most.
    pub fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self
            .queue
            .sender
            .try_send(WriterMessage::Flush(done))
            .is_ok()
        {
            let _ = written.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        self.flush();
    }
}

impl LineQueue {
    pub(crate) fn send(&self, line: Vec<u8>) {
        if self.sender.try_send(WriterMessage::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_all(mut file: RotatingFile, messages: &Receiver<WriterMessage>, dropped: &AtomicU64) {
    while let Ok(message) = messages.recv() {
        match message {
            WriterMessage::Line(line) => {
                if file.append(&line).is_err() {
                    dropped.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                let count = dropped.swap(0, Ordering::Relaxed);
                if count > 0 && file.append(&dropped_line(count)).is_err() {
                    dropped.fetch_add(count, Ordering::Relaxed);
                }
            }
            WriterMessage::Flush(done) => {
                let _ = done.try_send(());
            }
        }
    }
}

fn dropped_line(count: u64) -> Vec<u8> {
    let pid = std::process::id();
    let record = serde_json::json!({
        "at": 0.0, "name": format!("{count} lines could not be written here"),
        "pid": pid, "level": "WARN", "target": "cellblock_trace",
    });
    format!("{record}\n").into_bytes()
}
