//! The handle of one process.

use super::output::{ProcessEvent, ProcessEvents, ProcessOutput};
use crate::wire::packets::Packets;
use crate::{Error, ProcessProblem, ProcessRefusal};
use cellblock_protocol::{
    Invalid, ProcessEnd, ProcessInfo, ProcessStatus, ProcessStream, TerminalSize,
};
use cellblock_sandbox::{end_request, resize_terminal, signal_request};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, watch};

/// A process beside the interpreter of a session. A handle: clones are the same process. It goes on when the last one is dropped, and ends with the
/// session.
///
/// ```
/// # cellblock_test_support::wait(async {
/// # let session = cellblock_test_support::open_session(Default::default()).await?;
/// use cellblock_protocol::Spawn;
///
/// let process = session.spawn(Spawn::shell("echo hello; exit 3")).await?;
/// let finished = process.output().await;
/// assert_eq!(finished.stdout, b"hello\n");
/// assert_eq!(finished.end.exit_code, Some(3));
/// # Ok::<(), cellblock_session::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Process(pub(super) Arc<ProcessState>);

/// What is known of a process on the host.
#[derive(Debug)]
pub(crate) struct ProcessState {
    pub(super) info: ProcessInfo,
    /// The place of the process in the order in which processes of the session were started.
    pub(super) number: u64,
    /// The supervisor, by its id in the session.
    pub(super) supervisor: u32,
    pub(super) output: Arc<ProcessOutput>,
    pub(super) input: Input,
    /// To the supervisor.
    pub(super) status: Packets,
    /// To init, which ends whole trees.
    pub(super) control: Arc<Packets>,
    /// Why the process is to end, once that is decided.
    pub(super) reason: Mutex<Option<ProcessStatus>>,
    /// Whether nothing is left of the process and of what it started.
    pub(super) is_gone: watch::Sender<bool>,
}

/// Where the input of a process goes.
#[derive(Debug)]
pub(super) struct Input {
    /// `None` once it was closed.
    pub(super) end: Mutex<Option<Arc<AsyncFd<OwnedFd>>>>,
    pub(super) kind: InputKind,
    /// One writer at a time, so that what two write does not mix.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// Wakes a writer that waits when the input is closed.
    pub(super) closed: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputKind {
    /// The process reads `/dev/null`.
    None,
    Pipe,
    Terminal,
}

/// A process that was just started, with a reader of its output from the first byte on.
#[derive(Debug)]
pub struct AttachedProcess {
    /// The process.
    pub process: Process,
    /// Its output and its end.
    pub events: ProcessEvents,
}

/// A process that has ended, with what it wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedProcess {
    /// Standard output, or all output where there is a terminal.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// How many bytes were left out, as there were too many.
    pub dropped: u64,
    /// How it ended.
    pub end: ProcessEnd,
}

impl Process {
    /// What the process is.
    pub fn info(&self) -> &ProcessInfo {
        &self.0.info
    }

    /// Reads what the process writes, from the byte `after` of all its output on. While this reader is there, the process waits for
    /// it when it has written a mebibyte more than was read.
    pub fn attach(&self, after: u64) -> ProcessEvents {
        ProcessEvents::new(Arc::clone(&self.0.output), after)
    }

    /// Collects the output until the process ends: at most 16 MiB of each stream, the rest is counted.
    pub async fn output(&self) -> FinishedProcess {
        const MAX_COLLECTED_BYTES: usize = 16 << 20;
        let (mut stdout, mut stderr, mut dropped) = (Vec::new(), Vec::new(), 0);
        let mut events = self.attach(0);
        while let Some(event) = events.next().await {
            match event {
                ProcessEvent::Output { stream, bytes, .. } => {
                    let place = match stream {
                        ProcessStream::Stderr => &mut stderr,
                        ProcessStream::Stdout | ProcessStream::Pty => &mut stdout,
                    };
                    let fits = bytes.len().min(MAX_COLLECTED_BYTES - place.len());
                    place.extend_from_slice(&bytes[..fits]);
                    dropped += (bytes.len() - fits) as u64;
                }
                ProcessEvent::Dropped { bytes } => dropped += bytes,
                ProcessEvent::End(_) => {}
            }
        }
        FinishedProcess {
            stdout,
            stderr,
            dropped,
            end: self.wait().await,
        }
    }

    /// Writes to the standard input, or types into the terminal. Returns when all of it was taken: a process that does not read holds the
    /// caller up.
    pub async fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        let input = &self.0.input;
        let _turn = input.turn.lock().await;
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = self.input_end()?;
            let closed = input.closed.notified();
            let written = tokio::select! {
                written = end.async_io(Interest::WRITABLE, |end| Ok(rustix::io::write(end, rest)?)) => written,
                () = closed => continue,
                _ = self.0.output.wait() => Err(io::ErrorKind::BrokenPipe.into()),
            };
            let written = written.map_err(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => self.refuse(ProcessProblem::DoesNotRead),
                _ => Error::System {
                    what: "writing to a process",
                    source: error,
                },
            })?;
            rest = &rest[written..];
        }
        Ok(())
    }

    fn input_end(&self) -> Result<Arc<AsyncFd<OwnedFd>>, Error> {
        let end = self.0.input.lock().clone();
        end.ok_or_else(|| match self.0.input.kind {
            InputKind::None => self.refuse(ProcessProblem::NoInput),
            InputKind::Pipe | InputKind::Terminal => self.refuse(ProcessProblem::InputClosed),
        })
    }

    /// Closes the standard input: the process reads the end of it. A terminal stays, for output; there the key Ctrl-D is typed.
    pub async fn close_input(&self) -> Result<(), Error> {
        const END_OF_INPUT: &[u8] = b"\x04";
        match self.0.input.kind {
            InputKind::Terminal => self.write(END_OF_INPUT).await,
            InputKind::Pipe | InputKind::None => {
                self.0.input.lock().take();
                self.0.input.closed.notify_waiters();
                Ok(())
            }
        }
    }

    /// Sends a signal, 1 to 64, to the process group that the process leads.
    pub async fn signal(&self, signal: i32) -> Result<(), Error> {
        if !(1..=64).contains(&signal) {
            let came = signal.to_string();
            return Err(Invalid::value("signal", "a number from 1 to 64", came).into());
        }
        if self.0.output.ended().is_some() {
            return Err(self.refuse(ProcessProblem::Ended));
        }
        let sent = self.0.status.send(&signal_request(signal), &[]).await;
        sent.map_err(|_| self.refuse(ProcessProblem::Ended))
    }

    /// Gives its terminal another size.
    pub fn resize(&self, size: TerminalSize) -> Result<(), Error> {
        size.validate()?;
        if self.0.output.ended().is_some() {
            return Err(self.refuse(ProcessProblem::Ended));
        }
        let end = self.0.input.lock().clone();
        match (self.0.input.kind, end) {
            (InputKind::Terminal, Some(end)) => {
                let size = cellblock_sandbox::TerminalSize {
                    columns: size.cols,
                    rows: size.rows,
                };
                Ok(resize_terminal(end.get_ref(), size)?)
            }
            (InputKind::Terminal, None) => Err(self.refuse(ProcessProblem::Ended)),
            _ => Err(self.refuse(ProcessProblem::NoTerminal)),
        }
    }

    /// Ends the process and all that it started, also what has left its group, and waits until nothing of it is left.
    pub async fn kill(&self) {
        self.0.end_for(ProcessStatus::Killed).await;
    }

    /// Waits for the end of the process.
    pub async fn wait(&self) -> ProcessEnd {
        self.0.output.wait().await
    }

    /// How the process ended, once it has.
    pub fn end(&self) -> Option<ProcessEnd> {
        self.0.output.ended()
    }

    fn refuse(&self, problem: ProcessProblem) -> Error {
        let process = self.0.info.proc.clone();
        ProcessRefusal::Unusable { process, problem }.into()
    }
}

impl ProcessState {
    /// Whether something of the process is left: itself, or what it started.
    pub(crate) fn is_left(&self) -> bool {
        !*self.is_gone.borrow()
    }

    /// Notes why the process is about to end. The first reason counts.
    pub(super) fn note_reason(&self, reason: ProcessStatus) {
        let mut known = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert(reason);
    }

    /// Has init end the process with all that it started. Does not wait.
    pub(super) async fn request_end(&self, reason: ProcessStatus) {
        self.note_reason(reason);
        let _ = self.control.send(&end_request(self.supervisor), &[]).await;
    }

    /// The same, and waits until nothing is left.
    pub(super) async fn end_for(&self, reason: ProcessStatus) {
        let mut gone = self.is_gone.subscribe();
        if !*gone.borrow() {
            self.request_end(reason).await;
        }
        let _ = gone.wait_for(|gone| *gone).await;
    }

    /// The process in a few words, for a person.
    pub(crate) fn describe(&self) -> String {
        const MAX_CHARACTERS: usize = 60;
        let line = self.info.argv.join(" ");
        let mut short: String = line.chars().take(MAX_CHARACTERS).collect();
        if short.len() < line.len() {
            short.push('…');
        }
        format!("the process {} ({short})", self.info.proc)
    }
}

impl Input {
    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<AsyncFd<OwnedFd>>>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
