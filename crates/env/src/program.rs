//! Running a program to its end: its lines as they come, a time limit, and a way to stop it.

use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::{Interpreter, ProgramEnd};

/// How often the cancellation and the time limit of a silent program are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// How long descendants may hold the pipes open after the program itself ended.
const PIPE_GRACE: Duration = Duration::from_millis(500);
/// A longer line is split in two. No line of an installer is longer.
const MAX_LINE_BYTES: u64 = 8 * 1024;
const TAIL_LINES: usize = 20;
const MAX_TAIL_LINE_CHARS: usize = 400;

/// A switch that stops [`crate::Environments::make`]: the installer is killed within 50 ms, the unfinished
/// environment is removed, and the call returns [`crate::Error::Cancelled`]. Clones share the switch.
///
/// ```
/// use cellblock_env::Cancel;
///
/// let cancel = Cancel::new();
/// let guard = cancel.on_drop();
/// drop(guard);
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A switch that is off.
    pub fn new() -> Self {
        Self::default()
    }

    /// Turns the switch on, for good.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the switch is on.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// A guard that turns the switch on when dropped. An async caller holds it beside the blocking task,
    /// so that dropping the caller's future stops the work.
    #[must_use]
    pub fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }
}

/// Turns a [`Cancel`] on when dropped. Made by [`Cancel::on_drop`].
#[derive(Debug)]
pub struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The stream that a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// A program that ended by itself.
#[derive(Debug)]
pub(crate) struct EndedProgram {
    pub(crate) status: ExitStatus,
    /// The last lines of both streams, for an error message. Their order between the streams is not certain.
    pub(crate) tail: Vec<String>,
    /// The last lines of standard error alone.
    pub(crate) stderr: Vec<String>,
}

/// Why a program did not end by itself.
#[derive(Debug)]
pub(crate) enum ProgramStopped {
    DidNotStart(io::Error),
    TimedOut,
    Cancelled,
}

/// Runs a program and gives each line of its output to `on_line`. The program has a process group of its
/// own, so that every process that it started ends with it.
pub(crate) fn run(
    mut command: Command,
    time_limit: Option<Duration>,
    cancel: &Cancel,
    on_line: &mut dyn FnMut(Stream, &str),
) -> Result<EndedProgram, ProgramStopped> {
    let deadline = time_limit.map(|limit| Instant::now() + limit);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = spawn(&mut command).map_err(ProgramStopped::DidNotStart)?;

    let (sender, lines) = mpsc::channel();
    let streams = (child.stdout.take(), child.stderr.take());
    let reading = match streams {
        (Some(stdout), Some(stderr)) => read_lines(stdout, Stream::Stdout, sender.clone())
            .and_then(|()| read_lines(stderr, Stream::Stderr, sender)),
        _ => Ok(()),
    };
    if let Err(error) = reading {
        let _ = kill_and_reap(&mut child);
        return Err(ProgramStopped::DidNotStart(error));
    }

    let mut tail = LastLines::default();
    let mut stderr = LastLines::default();
    let mut ended_at: Option<Instant> = None;
    let mut are_streams_open = true;
    loop {
        if cancel.is_cancelled() {
            let _ = kill_and_reap(&mut child);
            return Err(ProgramStopped::Cancelled);
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let _ = kill_and_reap(&mut child);
            return Err(ProgramStopped::TimedOut);
        }
        match lines.recv_timeout(POLL_INTERVAL) {
            Ok((stream, text)) => {
                on_line(stream, &text);
                if stream == Stream::Stderr {
                    stderr.push(&text);
                }
                tail.push(&text);
            }
            Err(RecvTimeoutError::Timeout) => {}
            // A program closes its streams a moment before it ends.
            Err(RecvTimeoutError::Disconnected) if are_streams_open => are_streams_open = false,
            Err(RecvTimeoutError::Disconnected) => thread::sleep(Duration::from_millis(2)),
        }
        if ended_at.is_none() && has_ended(&child) {
            ended_at = Some(Instant::now());
        }
        if ended_at.is_some_and(|at| !are_streams_open || at.elapsed() > PIPE_GRACE) {
            let status = kill_and_reap(&mut child).map_err(ProgramStopped::DidNotStart)?;
            return Ok(EndedProgram {
                status,
                tail: tail.into_lines(),
                stderr: stderr.into_lines(),
            });
        }
    }
}

/// The same command, which the kernel kills when the calling thread ends, even if this process is killed
/// with SIGKILL.
///
/// Only the program itself can ask the kernel for that (`PR_SET_PDEATHSIG`), and `pre_exec` is `unsafe`. So
/// a Python asks for it and then executes the program. Without `ctypes` the command is returned unchanged.
pub(crate) fn end_with_parent(interpreter: &Interpreter, command: Command) -> Command {
    if !interpreter.modules.ctypes {
        return command;
    }
    let mut wrapper = Command::new(&interpreter.executable);
    wrapper
        .args([
            "-I",
            "-S",
            "-c",
            include_str!("install/python/end_with_parent.py"),
        ])
        .arg(std::process::id().to_string())
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            wrapper.env(name, value);
        }
    }
    if let Some(directory) = command.get_current_dir() {
        wrapper.current_dir(directory);
    }
    wrapper
}

/// How a program that failed ended.
pub(crate) fn program_end(status: ExitStatus) -> ProgramEnd {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => ProgramEnd::Exit(code),
        (None, Some(signal)) => ProgramEnd::Signal(signal),
        (None, None) => ProgramEnd::Other("ended".to_owned()),
    }
}

/// Starts a program. A program that was written a moment ago may still be open in another thread's child,
/// which has not yet executed its own program; the kernel then refuses with "text file busy" for a moment.
fn spawn(command: &mut Command) -> io::Result<Child> {
    for _ in 0..20 {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                thread::sleep(Duration::from_millis(5));
            }
            outcome => return outcome,
        }
    }
    command.spawn()
}

fn read_lines(
    stream: impl Read + Send + 'static,
    which: Stream,
    sender: Sender<(Stream, String)>,
) -> io::Result<()> {
    // The thread ends with the pipe, or with the receiver.
    let thread = thread::Builder::new().name("lines".to_owned());
    let started = thread.spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match (&mut reader)
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut bytes)
            {
                Ok(0) | Err(_) => break,
                Ok(_) => {
                    let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
                    if sender.send((which, text)).is_err() {
                        break;
                    }
                }
            }
        }
    });
    started.map(drop)
}

/// Whether the program ended. It is not reaped yet, so that no other process group can get its number
/// before the group is killed.
fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // An error means that there is nothing to wait for: `kill_and_reap` then reports it.
    group(child).is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), options), Ok(None)))
}

/// Kills the processes that are left of the group, and reaps the program.
fn kill_and_reap(child: &mut Child) -> io::Result<ExitStatus> {
    if let Some(group) = group(child) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait()
}

fn group(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// The last lines of a program's output, cleaned for an error message.
#[derive(Default)]
pub(crate) struct LastLines {
    lines: VecDeque<String>,
}

impl LastLines {
    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }

    pub(crate) fn push(&mut self, line: &str) {
        let line = clean(line);
        if line.is_empty() {
            return;
        }
        if self.lines.len() == TAIL_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
}

/// A line for an error message: shortened, without terminal escapes, and without the password that the
/// address of an index may hold.
fn clean(line: &str) -> String {
    let plain: String = line
        .chars()
        .filter(|character| !character.is_control())
        .take(MAX_TAIL_LINE_CHARS)
        .collect();
    let mut out = String::with_capacity(plain.len());
    let mut rest = plain.as_str();
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let host_ends = after
            .find(|c: char| c == '/' || c == '`' || c == '\'' || c == '"' || c.is_whitespace())
            .unwrap_or(after.len());
        let (authority, tail) = after.split_at(host_ends);
        match authority.rsplit_once('@') {
            Some((_, host)) => {
                out.push_str("****@");
                out.push_str(host);
            }
            None => out.push_str(authority),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
