//! The log of what is printed in a container: one line each, with where it came from in front.

use cellblock_protocol::Stream;
use std::sync::Arc;

/// The longest line; what is longer comes in pieces.
const MAX_LINE_BYTES: usize = 8 << 10;

/// Puts lines into the log; or nothing, where no log is wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConsoleLog {
    label: Option<Arc<str>>,
    begun: [String; 2],
}

impl ConsoleLog {
    /// For the session with this name.
    pub(crate) fn of(label: &str) -> ConsoleLog {
        ConsoleLog {
            label: Some(label.into()),
            ..ConsoleLog::default()
        }
    }

    /// Something was written to a stream.
    pub(crate) fn take(&mut self, stream: Stream, text: &str) {
        let Some(label) = &self.label else {
            return;
        };
        let begun = &mut self.begun[usize::from(stream == Stream::Stderr)];
        for piece in text.split_inclusive('\n') {
            begun.push_str(piece);
            if piece.ends_with('\n') || begun.len() > MAX_LINE_BYTES {
                let line = std::mem::take(begun);
                write(&line_of(label, name(stream), line.trim_end_matches('\n')));
            }
        }
    }

    /// The cell is over: a line that was begun is one, too.
    pub(crate) fn end(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if !self.begun[usize::from(stream == Stream::Stderr)].is_empty() {
                self.take(stream, "\n");
            }
        }
    }
}

/// A line of a session's container.
pub(crate) fn line_of(label: &str, source: &str, line: &str) -> String {
    format!("[docker][{label}][{source}] {line}")
}

/// Writes a line to the log.
pub(crate) fn write(line: &str) {
    tracing::info!(target: "cellblock::docker", "{line}");
}

fn name(stream: Stream) -> &'static str {
    if stream == Stream::Stderr {
        "stderr"
    } else {
        "stdout"
    }
}
