//! A server that runs as a child process: its start, its end, and its output.

use super::message_budget::MessageBudget;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// The environment variables of this process that a program gets. Others may hold secrets.
const PASSED_VARIABLES: [&str; 9] = [
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ",
];
/// The environment variable that counts how many MCP clients of this program started each other.
const NESTING_VARIABLE: &str = "CELLBLOCK_MCP_NESTING";

/// How many MCP clients of this program started each other down to this process: 0 for a process that a person or another program started.
pub fn nesting_level() -> u32 {
    let level = std::env::var(NESTING_VARIABLE);
    level.ok().and_then(|level| level.parse().ok()).unwrap_or(0)
}

/// How long a program may take to end after its input is closed, and again after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// The bytes that are kept of its standard error.
const MAX_STDERR_BYTES: usize = 2_000;

/// A running program, in a process group of its own.
pub(super) struct Program {
    child: Child,
    group: Option<Pid>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
}

impl Program {
    /// Starts the program. Returns it with its standard output and input.
    pub(super) fn start(
        command: &str,
        arguments: &[String],
        environment: &BTreeMap<String, String>,
        directory: Option<&Path>,
    ) -> Result<(Program, ChildStdout, ChildStdin), String> {
        let mut starting = Command::new(command);
        starting
            .args(arguments)
            .env_clear()
            .envs(
                PASSED_VARIABLES
                    .iter()
                    .filter_map(|name| Some((name, std::env::var_os(name)?))),
            )
            .envs(environment)
            .env(NESTING_VARIABLE, (nesting_level() + 1).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(directory) = directory {
            starting.current_dir(directory);
        }
        cellblock_sandbox::end_with_parent(starting.as_std_mut());
        let mut child = starting
            .spawn()
            .map_err(|error| format!("`{command}` cannot be started: {error}"))?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let (Some(output), Some(input), Some(errors)) =
            (child.stdout.take(), child.stdin.take(), child.stderr.take())
        else {
            return Err(format!("`{command}` has no standard streams"));
        };
        let stderr = Arc::default();
        tokio::spawn(keep_tail(errors, Arc::clone(&stderr)));
        let program = Program {
            child,
            group,
            stderr,
        };
        Ok((program, output, input))
    }

    /// Ends the program and its process group. Its input must be closed before. Returns how it ended, in words.
    pub(super) async fn end(mut self) -> String {
        if !self.has_ended_within(EXIT_TIMEOUT).await {
            self.signal(Signal::TERM);
            self.has_ended_within(EXIT_TIMEOUT).await;
        }
        // As long as the program is not reaped, no other process group can have this id.
        self.signal(Signal::KILL);
        self.group = None;
        let status = self.child.wait().await;
        let mut text = status.map_or_else(|error| error.to_string(), described);
        if let Some(last) = self.last_stderr_line() {
            text.push_str(&format!("; the last it wrote: {last}"));
        }
        text
    }

    async fn has_ended_within(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        loop {
            if self.has_ended() {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    fn has_ended(&self) -> bool {
        let Some(id) = self.group else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(id), options), Ok(None))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // The process may have ended.
            let _ = kill_process_group(group, signal);
        }
    }

    fn last_stderr_line(&self) -> Option<String> {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
        let clean = line.chars().filter(|c| !c.is_control());
        Some(clean.take(300).collect())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Reads everything, and keeps the end.
async fn keep_tail(mut stream: impl AsyncRead + Unpin, tail: Arc<Mutex<VecDeque<u8>>>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend(&buffer[..count]);
        let surplus = tail.len().saturating_sub(MAX_STDERR_BYTES);
        tail.drain(..surplus);
    }
}

fn described(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with status {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended".to_owned(),
    }
}

/// The longest message that is read. A longer one is skipped.
pub(super) const MAX_LINE_BYTES: usize = 48 << 20;
/// The bytes that are kept of a line that is no message.
const MAX_STRAY_BYTES: usize = 160;

/// What was seen on a server's standard output besides messages.
#[derive(Debug, Default)]
pub(super) struct StdoutMonitor {
    stray: Mutex<Option<String>>,
    too_long: Notify,
}

impl StdoutMonitor {
    /// The last line that was no message.
    pub(super) fn stray(&self) -> Option<String> {
        self.stray
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits for a message that is too long to be read.
    pub(super) async fn too_long(&self) {
        self.too_long.notified().await;
    }
}

/// A reader that reports the lines it reads to a [`StdoutMonitor`], and counts each one. It ends when there are too many.
pub(super) struct MonitoredReader<R> {
    stream: R,
    monitor: Arc<StdoutMonitor>,
    budget: Arc<MessageBudget>,
    /// The bytes of the current line so far.
    length: usize,
    /// The beginning of the current line, if it cannot be a message.
    stray: Vec<u8>,
}

impl<R> MonitoredReader<R> {
    pub(super) fn new(
        stream: R,
        monitor: Arc<StdoutMonitor>,
        budget: Arc<MessageBudget>,
    ) -> MonitoredReader<R> {
        MonitoredReader {
            stream,
            monitor,
            budget,
            length: 0,
            stray: Vec::new(),
        }
    }

    /// Looks at bytes that came. Those of a line that cannot be a message become blanks: a text in quotes is JSON, and would be answered,
    /// which waits for ever where the server reads nothing.
    fn scan(&mut self, bytes: &mut [u8]) {
        for (index, piece) in bytes.split_mut(|byte| *byte == b'\n').enumerate() {
            if index > 0 {
                self.budget.take();
                self.end_line();
            }
            if !self.scan_piece(piece) {
                piece.fill(b' ');
            }
        }
    }

    /// Returns whether the piece can be part of a message.
    fn scan_piece(&mut self, piece: &[u8]) -> bool {
        // Blanks before a message are part of no line yet.
        let first = piece.iter().find(|byte| !byte.is_ascii_whitespace());
        let is_empty = piece.is_empty() || (self.length == 0 && first.is_none());
        if is_empty {
            return true;
        }
        let is_message = if self.length == 0 {
            matches!(first, Some(b'{' | b'['))
        } else {
            self.stray.is_empty()
        };
        if !is_message {
            let rest = MAX_STRAY_BYTES - self.stray.len().min(MAX_STRAY_BYTES);
            self.stray.extend(piece.iter().take(rest));
        }
        let before = self.length;
        self.length = before.saturating_add(piece.len());
        if before <= MAX_LINE_BYTES && self.length > MAX_LINE_BYTES {
            self.monitor.too_long.notify_waiters();
        }
        is_message
    }

    fn end_line(&mut self) {
        let stray = std::mem::take(&mut self.stray);
        let text = String::from_utf8_lossy(&stray);
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        if !text.trim().is_empty() {
            *self
                .monitor
                .stray
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
        self.length = 0;
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for MonitoredReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.budget.reason().is_some() {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = &polled {
            let new = &mut buffer.filled_mut()[before..];
            let is_over = new.is_empty();
            self.scan(new);
            if is_over {
                // The last line may have no line break.
                self.end_line();
            }
        }
        polled
    }
}
