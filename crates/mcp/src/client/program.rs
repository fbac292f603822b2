//! A server that runs as a child process: its start, its end, and its output.

use super::message_budget::{BYTES_PER_MESSAGE, MessageBudget, READS_NOTHING};
use crate::message_size::{MessageSize, TooLarge};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncBufRead as _, AsyncRead, AsyncReadExt as _, AsyncWrite, BufReader, ReadBuf};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep, timeout};

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
/// How long is waited for the end of its standard error after it has ended.
const STDERR_TIMEOUT: Duration = Duration::from_millis(500);
/// The bytes that are kept of its standard error.
const MAX_STDERR_BYTES: usize = 2_000;

/// A running program, in a process group of its own.
pub(super) struct Program {
    child: Child,
    group: Option<Pid>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    /// The task that reads its standard error, which a process can hold open that it left behind.
    stderr_reader: JoinHandle<()>,
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
        let stderr_reader = tokio::spawn(keep_tail(errors, Arc::clone(&stderr)));
        let program = Program {
            child,
            group,
            stderr,
            stderr_reader,
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
        // What it wrote last may still be in the pipe.
        let _ = timeout(STDERR_TIMEOUT, &mut self.stderr_reader).await;
        let mut text = status.map_or_else(|error| error.to_string(), described);
        if let Some(last) = self.last_stderr_lines() {
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

    /// The end of what it wrote: its error with the lines below, or the last line.
    fn last_stderr_lines(&self) -> Option<String> {
        const MAX_CHARS: usize = 600;
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        let error = lines.iter().rposition(|line| line.starts_with("error: "));
        let first = error.or(lines.len().checked_sub(1))?;
        let shown = lines[first..].join("; ");
        Some(
            shown
                .chars()
                .filter(|c| !c.is_control())
                .take(MAX_CHARS)
                .collect(),
        )
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.stderr_reader.abort();
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

/// The bytes that are kept of a line that is no message.
const MAX_STRAY_BYTES: usize = 160;

/// What was seen on a server's standard output besides messages.
#[derive(Debug, Default)]
pub(super) struct StdoutMonitor {
    stray: Mutex<Option<String>>,
    left_out: Mutex<Option<TooLarge>>,
    leaves_out: Notify,
}

impl StdoutMonitor {
    /// The last line that was no message.
    pub(super) fn stray(&self) -> Option<String> {
        self.stray
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits for a message that is too large to be read, and says why it is left out.
    pub(super) async fn left_out(&self) -> TooLarge {
        self.leaves_out.notified().await;
        let left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        left_out.unwrap_or(TooLarge::Bytes)
    }

    fn leave_out(&self, problem: TooLarge) {
        *self.left_out.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
        self.leaves_out.notify_waiters();
    }
}

/// A reader that reports the lines it reads to a [`StdoutMonitor`], and counts each one. It ends when there are too many.
pub(super) struct MonitoredReader<R> {
    stream: BufReader<R>,
    monitor: Arc<StdoutMonitor>,
    budget: Arc<MessageBudget>,
    line: CurrentLine,
}

/// The current line, as far as it is read.
#[derive(Default)]
struct CurrentLine {
    /// All its bytes.
    bytes: usize,
    /// How many messages it was counted as.
    cost: usize,
    /// What comes from its first byte that is not blank.
    size: MessageSize,
    /// Whether it is too large, and the rest of it is left out.
    is_left_out: bool,
    /// Its beginning, if it cannot be a message.
    stray: Vec<u8>,
}

impl<R: AsyncRead> MonitoredReader<R> {
    pub(super) fn new(
        stream: R,
        monitor: Arc<StdoutMonitor>,
        budget: Arc<MessageBudget>,
    ) -> MonitoredReader<R> {
        MonitoredReader {
            stream: BufReader::with_capacity(1 << 16, stream),
            monitor,
            budget,
            line: CurrentLine::default(),
        }
    }

    /// Looks at bytes that came, at most one line. Those of a line that cannot be a message become blanks: a text in quotes is JSON, and
    /// the transport would answer it. So does the rest of a message that is too large: what is cut off is not parsed. It answers objects that are no messages, and reads nothing meanwhile; [`MonitoredWriter`] bounds how
    /// long that takes.
    fn scan(&mut self, bytes: &mut [u8]) {
        let (piece, is_whole) = match bytes {
            [piece @ .., b'\n'] => (piece, true),
            piece => (piece, false),
        };
        let length = piece.len();
        if !self.scan_piece(piece) {
            piece.fill(b' ');
        }
        self.line.bytes = self.line.bytes.saturating_add(length);
        let cost = self.line.bytes / BYTES_PER_MESSAGE + usize::from(is_whole);
        self.budget.try_take(cost - self.line.cost);
        self.line.cost = cost;
        if is_whole {
            self.end_line();
        }
    }

    /// Returns whether the piece can be part of a message.
    fn scan_piece(&mut self, piece: &[u8]) -> bool {
        let line = &mut self.line;
        let is_message = if line.size.is_empty() {
            // Blanks before a message are part of no line yet.
            match piece.iter().find(|byte| !byte.is_ascii_whitespace()) {
                Some(first) => matches!(first, b'{' | b'['),
                None => return true,
            }
        } else {
            line.stray.is_empty()
        };
        if !is_message {
            let rest = MAX_STRAY_BYTES - line.stray.len().min(MAX_STRAY_BYTES);
            line.stray.extend(piece.iter().take(rest));
        }
        if !line.is_left_out
            && let Err(problem) = line.size.add(piece)
        {
            line.is_left_out = true;
            self.monitor.leave_out(problem);
        }
        is_message && !line.is_left_out
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        self.budget.set_line_cost(line.cost);
        let text = String::from_utf8_lossy(&line.stray);
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        if !text.trim().is_empty() {
            *self
                .monitor
                .stray
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for MonitoredReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.budget.has_ended() {
            return Poll::Ready(Ok(()));
        }
        let this = &mut *self;
        let available = ready!(Pin::new(&mut this.stream).poll_fill_buf(context))?;
        if available.is_empty() {
            // The last line may have no line break.
            this.end_line();
            return Poll::Ready(Ok(()));
        }
        // At most one line: when the transport returns a message, the last line that was read is that message, and its cost is known.
        let room = available.len().min(buffer.remaining());
        let end = available[..room].iter().position(|byte| *byte == b'\n');
        let count = end.map_or(room, |end| end + 1);
        let before = buffer.filled().len();
        buffer.put_slice(&available[..count]);
        Pin::new(&mut this.stream).consume(count);
        this.scan(&mut buffer.filled_mut()[before..]);
        Poll::Ready(Ok(()))
    }
}

/// A writer to a server's standard input. The connection ends when the server reads nothing for too long of what waits for it: an answer
/// that cannot be written can keep the transport from reading, and what is not read is not counted.
pub(super) struct MonitoredWriter<W> {
    stream: W,
    budget: Arc<MessageBudget>,
    limit: Duration,
    /// Set while the server does not read.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<W> MonitoredWriter<W> {
    pub(super) fn new(
        stream: W,
        budget: Arc<MessageBudget>,
        limit: Duration,
    ) -> MonitoredWriter<W> {
        MonitoredWriter {
            stream,
            budget,
            limit,
            deadline: None,
        }
    }

    /// Ends the connection if an attempt to write has made no progress until the deadline.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        attempt: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if attempt.is_ready() {
            self.deadline = None;
            return attempt;
        }
        let limit = self.limit;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(deadline.as_mut().poll(context));
        self.budget.exceed(READS_NOTHING);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for MonitoredWriter<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, attempt)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, attempt)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On one thread: nothing is read while the program ends.
    #[tokio::test]
    async fn what_a_program_wrote_last_is_told_although_it_was_not_read_yet() {
        let arguments = [
            "-c".to_owned(),
            "echo 'error: no such file' >&2; exit 3".to_owned(),
        ];
        let (program, ..) = Program::start("sh", &arguments, &BTreeMap::new(), None).unwrap();
        while !program.has_ended() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(
            program.end().await,
            "it ended with status 3; the last it wrote: error: no such file"
        );
    }
}
