//! A session's container while it runs: the log of what is printed in it, its end, its removal.

use crate::Error;
use crate::events::SessionEvents;
use cellblock_docker::{Container, Output};
use cellblock_protocol::Stream;
use rustix::net::{Shutdown, shutdown};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long an engine may take to report the end of a container, or to remove it.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// How many of the container's last lines an error message shows.
const MAX_LAST_LINES: usize = 20;

/// A container that was started. Dropping the value removes the container.
#[derive(Debug)]
pub(crate) struct RunningContainer {
    container: Container,
    /// How the container ended; `None` while it runs.
    end: watch::Receiver<Option<ContainerEnd>>,
    wait_task: JoinHandle<()>,
    output_task: Option<JoinHandle<()>>,
    last_lines: LastLines,
    pub(crate) console_log: ConsoleLog,
    is_removed: bool,
}

/// How a container ended.
#[derive(Clone, Debug)]
enum ContainerEnd {
    /// The first process ended with this exit code.
    Exited(i64),
    /// The engine went away; the text says how that was seen.
    EngineLost(String),
}

/// The log of the container's lines.
#[derive(Clone, Debug)]
pub(crate) struct ContainerLog {
    /// The session's name, which stands in front of each line.
    pub(crate) label: String,
    pub(crate) events: SessionEvents,
}

type LastLines = Arc<Mutex<VecDeque<String>>>;

impl RunningContainer {
    /// Starts a container, reads its output and waits for its end, both in tasks of their own.
    pub(crate) async fn start(
        container: Container,
        log: Option<ContainerLog>,
    ) -> Result<RunningContainer, Error> {
        let (end_sender, end) = watch::channel(None);
        let mut running = RunningContainer {
            container: container.clone(),
            end,
            wait_task: tokio::spawn(async {}),
            output_task: None,
            last_lines: LastLines::default(),
            console_log: log
                .as_ref()
                .map(|log| ConsoleLog::of(&log.label))
                .unwrap_or_default(),
            is_removed: false,
        };
        let output = container.attach().await?;
        container.start().await?;
        let lines = Arc::clone(&running.last_lines);
        running.output_task = Some(tokio::spawn(read_output(output, lines, log)));
        running.wait_task = tokio::spawn(async move {
            let end = match container.wait().await {
                Ok(code) => ContainerEnd::Exited(code),
                Err(error) => ContainerEnd::EngineLost(error.to_string()),
            };
            end_sender.send_replace(Some(end));
        });
        Ok(running)
    }

    /// Shuts down init's socket when the engine goes away: init then ends everything in the container.
    pub(crate) fn shut_down_with_engine(&self, init: OwnedFd) {
        let mut end = self.end.clone();
        tokio::spawn(async move {
            let lost = end.wait_for(|end| matches!(end, Some(ContainerEnd::EngineLost(_))));
            if lost.await.is_ok() {
                let _ = shutdown(&init, Shutdown::Both);
            }
        });
    }

    /// Why the container ended, for an error message. Waits at most [`END_TIMEOUT`] for the end.
    pub(crate) async fn why_lost(&self) -> String {
        let why = timeout(END_TIMEOUT, self.why_ended()).await;
        why.unwrap_or_else(|_| "its container does not answer".to_owned())
    }

    /// Waits, without a time limit, until the container has ended, and says why.
    pub(crate) async fn why_ended(&self) -> String {
        let mut end = self.end.clone();
        let end = match end.wait_for(Option::is_some).await {
            Ok(end) => end.clone(),
            Err(_) => None,
        };
        match end {
            Some(ContainerEnd::Exited(code)) => {
                let output = self.last_output();
                format!("its container ended with exit code {code}{output}")
            }
            Some(ContainerEnd::EngineLost(reason)) => {
                format!("its container was ended because the engine went away: {reason}")
            }
            None => "its container is not watched any more".to_owned(),
        }
    }

    /// The container's last lines, for the end of a message.
    fn last_output(&self) -> String {
        let lines = self.last_lines.lock();
        let lines: Vec<String> = lines
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect();
        if lines.is_empty() {
            String::new()
        } else {
            format!("; its last output:\n{}", lines.join("\n"))
        }
    }

    /// Waits until the container is gone, and removes it if it does not end within [`END_TIMEOUT`]. The
    /// caller has told the container's first process to end.
    pub(crate) async fn end(&mut self) {
        let end = self.end.wait_for(Option::is_some);
        let has_exited = matches!(
            timeout(END_TIMEOUT, end).await,
            Ok(Ok(end)) if matches!(*end, Some(ContainerEnd::Exited(_)))
        );
        if !has_exited {
            let _ = timeout(END_TIMEOUT, self.container.remove()).await;
        }
        self.is_removed = true;
    }
}

impl Drop for RunningContainer {
    fn drop(&mut self) {
        self.wait_task.abort();
        if let Some(output_task) = &self.output_task {
            output_task.abort();
        }
        if self.is_removed {
            return;
        }
        let container = self.container.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { container.remove().await });
        }
    }
}

async fn read_output(mut output: Output, last_lines: LastLines, log: Option<ContainerLog>) {
    while let Some(line) = output.next_line().await {
        if let Some(ContainerLog { label, events }) = &log {
            let logged = line_of(label, &line.stream.to_string(), &line.text);
            write(&logged);
            events.log(format!("{logged}\n"));
        }
        let mut last_lines = last_lines.lock().unwrap_or_else(PoisonError::into_inner);
        last_lines.push_back(line.text);
        if last_lines.len() > MAX_LAST_LINES {
            last_lines.pop_front();
        }
    }
}

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
