//! The way to the spawner, which starts the processes of a session.

use super::output::ProcessOutput;
use super::process::{Input, InputKind, ProcessState};
use super::task::{OutputStream, ProcessTask};
use crate::checkpoint::standby_channel::inode_of;
use crate::wire::packets::Packets;
use crate::{Error, NotFound, ProcessRefusal};
use cellblock_protocol::{ProcessInfo, ProcessStream, Spawn};
use cellblock_sandbox::{
    FromSpawner, ProcessRequest, SpawnFailure, SpawnStep, TerminalSize, async_fd, open_terminal,
    packet_pair,
};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// How long the spawner, and then a supervisor, may take to answer. A millisecond, but the machine may be busy.
const START_LIMIT: Duration = Duration::from_secs(20);

/// The host's ends of the sockets of a session's spawner.
#[derive(Debug)]
pub(crate) struct Spawner {
    pub(super) place: SpawnerPlace,
    requests: Packets,
    control: Arc<Packets>,
    environment: SpawnEnvironment,
}

/// How a spawner is found among the processes of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpawnerPlace {
    /// Its id in the session.
    pub(crate) pid: u32,
    /// The inode of its end of the socket for requests. Only the host sends to it, so descriptors that wait in it are the host's.
    pub(crate) socket: u64,
}

/// What processes of a session have when nothing else is said.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpawnEnvironment {
    /// The workspace, as the session calls it.
    pub(crate) home: String,
    pub(crate) variables: BTreeMap<String, String>,
}

/// The ends of the sockets that go to init with the request for a spawner.
#[derive(Debug)]
pub(crate) struct SpawnerEnds {
    /// The spawner's own, and that on which init is told what to end.
    pub(crate) sockets: [OwnedFd; 2],
}

impl Spawner {
    pub(super) async fn connect<F>(start: impl FnOnce(SpawnerEnds) -> F) -> Result<Spawner, Error>
    where
        F: Future<Output = Result<SpawnEnvironment, Error>>,
    {
        let (requests, far_requests) = packet_pair()?;
        let (control, far_control) = packet_pair()?;
        let socket = inode_of(&far_requests).map_err(Error::system("asking for a spawner"))?;
        let requests = packets(requests)?;
        let control = Arc::new(packets(control)?);
        let environment = start(SpawnerEnds {
            sockets: [far_requests, far_control],
        })
        .await?;
        match receive(&requests).await? {
            FromSpawner::Started { pid, .. } => Ok(Spawner {
                place: SpawnerPlace { pid, socket },
                requests,
                control,
                environment,
            }),
            FromSpawner::Failed(failure) => Err(refused("the spawner", failure)),
            FromSpawner::Ended { .. } => Err(makes_no_sense()),
        }
    }

    /// Whether the spawner still waits for requests. Its session may have begun anew, with other processes.
    pub(super) fn is_there(&self) -> bool {
        self.requests.is_silent()
    }

    pub(super) async fn start(&self, spawn: &Spawn, number: u64) -> Result<ProcessTask, Error> {
        let cwd = match &spawn.cwd {
            None => self.environment.home.clone(),
            Some(path) if path.starts_with('/') => path.clone(),
            Some(path) => format!("{}/{path}", self.environment.home),
        };
        let request = self.request(spawn, &cwd)?;
        let Streams {
            far,
            streams,
            input,
        } = Streams::of(spawn)?;
        let (status, far_status) = packet_pair()?;
        let status = packets(status)?;
        let descriptors: Vec<_> = std::iter::once(&far_status)
            .chain(&far)
            .map(|fd| fd.as_fd())
            .collect();
        let sent = self.requests.send(&request, &descriptors).await;
        sent.map_err(Error::system("asking for a process"))?;
        drop((far, far_status));
        let program = spawn.argv.first().map_or("", String::as_str);
        let (pid, supervisor) = match receive(&status).await? {
            FromSpawner::Started { pid, supervisor } => (pid, supervisor),
            FromSpawner::Failed(failure) => return Err(explain(program, &cwd, failure)),
            FromSpawner::Ended { .. } => return Err(makes_no_sense()),
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let state = ProcessState {
            info: ProcessInfo {
                proc: format!("p{number}"),
                pid,
                tag: spawn.tag.clone(),
                argv: spawn.argv.clone(),
                cwd,
                since: since.unwrap_or_default().as_secs_f64(),
            },
            number,
            supervisor,
            output: Arc::new(ProcessOutput::default()),
            input,
            status,
            control: Arc::clone(&self.control),
            reason: Mutex::new(None),
            is_gone: watch::Sender::new(false),
        };
        Ok(ProcessTask {
            state: Arc::new(state),
            streams,
            timeout: spawn.timeout,
        })
    }

    fn request(&self, spawn: &Spawn, cwd: &str) -> Result<Vec<u8>, Error> {
        let mut variables = self.environment.variables.clone();
        if spawn.pty.is_some() {
            variables.insert("TERM".to_owned(), "xterm-256color".to_owned());
        }
        variables.insert("PWD".to_owned(), cwd.to_owned());
        variables.extend(spawn.env.clone());
        let mut request = ProcessRequest::new(cwd)?;
        if spawn.pty.is_some() {
            request = request.with_terminal();
        }
        let path = variables.get("PATH").map_or("", String::as_str);
        let program = spawn.argv.first().map_or("", String::as_str);
        for candidate in candidates(program, path) {
            request = request.program(&candidate)?;
        }
        for argument in &spawn.argv {
            request = request.argument(argument)?;
        }
        for (name, value) in &variables {
            request = request.variable(name, value)?;
        }
        Ok(request.to_bytes()?)
    }
}

/// The paths at which a program may be.
fn candidates(program: &str, path: &str) -> Vec<String> {
    const MAX_DIRECTORIES: usize = 64;
    if program.contains('/') {
        return vec![program.to_owned()];
    }
    path.split(':')
        .filter(|directory| !directory.is_empty())
        .take(MAX_DIRECTORIES)
        .map(|directory| format!("{directory}/{program}"))
        .collect()
}

/// The standard streams of a process that is about to be started.
struct Streams {
    /// The ends of the process.
    far: Vec<OwnedFd>,
    streams: Vec<OutputStream>,
    input: Input,
}

impl Streams {
    fn of(spawn: &Spawn) -> Result<Streams, Error> {
        match spawn.pty {
            Some(size) => {
                let size = TerminalSize {
                    columns: size.cols,
                    rows: size.rows,
                };
                let (master, end) = open_terminal(size)?;
                let master = Arc::new(watched(master)?);
                Ok(Streams {
                    far: vec![end],
                    streams: vec![OutputStream {
                        stream: ProcessStream::Pty,
                        end: Arc::clone(&master),
                    }],
                    input: Input::new(InputKind::Terminal, Some(master)),
                })
            }
            None => {
                let (far_input, input) = if spawn.stdin {
                    let (far, near) = pipe()?;
                    rustix::io::ioctl_fionbio(&near, true).map_err(system)?;
                    let near = Arc::new(watched(near)?);
                    (far, Input::new(InputKind::Pipe, Some(near)))
                } else {
                    let null = std::fs::File::open("/dev/null");
                    let null = null.map_err(Error::system("opening /dev/null"))?;
                    (null.into(), Input::new(InputKind::None, None))
                };
                let mut far = vec![far_input];
                let mut streams = Vec::new();
                for stream in [ProcessStream::Stdout, ProcessStream::Stderr] {
                    let (near, far_end) = pipe()?;
                    rustix::io::ioctl_fionbio(&near, true).map_err(system)?;
                    far.push(far_end);
                    let end = Arc::new(watched(near)?);
                    streams.push(OutputStream { stream, end });
                }
                Ok(Streams {
                    far,
                    streams,
                    input,
                })
            }
        }
    }
}

impl Input {
    fn new(kind: InputKind, end: Option<Arc<tokio::io::unix::AsyncFd<OwnedFd>>>) -> Input {
        Input {
            end: Mutex::new(end),
            kind,
            turn: tokio::sync::Mutex::default(),
            closed: Notify::new(),
        }
    }
}

/// A pipe: the end to read from, and the end to write to.
fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(system)
}

fn system(error: rustix::io::Errno) -> Error {
    Error::system("making a pipe")(error.into())
}

fn watched(end: OwnedFd) -> Result<tokio::io::unix::AsyncFd<OwnedFd>, Error> {
    async_fd(end).map_err(Error::system("listening to a process"))
}

fn packets(socket: OwnedFd) -> Result<Packets, Error> {
    const MAX_PACKET_BYTES: usize = 256;
    Packets::new(socket, MAX_PACKET_BYTES).map_err(Error::system("listening to the spawner"))
}

/// The first word of the spawner or of a supervisor.
async fn receive(socket: &Packets) -> Result<FromSpawner, Error> {
    let failed = Error::system("waiting for a process to start");
    match timeout(START_LIMIT, socket.receive()).await {
        Ok(Ok(packet)) => Ok(FromSpawner::from_bytes(&packet.bytes)?),
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => Err(failed(io::ErrorKind::TimedOut.into())),
    }
}

fn makes_no_sense() -> Error {
    cellblock_sandbox::Error::Protocol {
        process: "the spawner",
    }
    .into()
}

/// Why a process was not started.
fn explain(program: &str, cwd: &str, failure: SpawnFailure) -> Error {
    let (program, directory) = (program.to_owned(), cwd.to_owned());
    let SpawnFailure {
        step,
        source: error,
    } = failure;
    match (step, error.kind()) {
        (SpawnStep::Execute, io::ErrorKind::NotFound) => NotFound::Program { program }.into(),
        (SpawnStep::Execute, _) => ProcessRefusal::NotExecutable { program, error }.into(),
        (SpawnStep::Directory, _) => NotFound::Directory { directory, error }.into(),
        (SpawnStep::Other(_), io::ErrorKind::WouldBlock) => ProcessRefusal::ProcessLimit.into(),
        (SpawnStep::Other(_), _) => refused(
            "the process",
            SpawnFailure {
                step,
                source: error,
            },
        ),
    }
}

fn refused(what: &'static str, failure: SpawnFailure) -> Error {
    let step = match failure.step {
        SpawnStep::Directory => "entering its directory",
        SpawnStep::Execute => "executing it",
        SpawnStep::Other(step) => step,
    };
    let error = failure.source;
    ProcessRefusal::Start { what, step, error }.into()
}
