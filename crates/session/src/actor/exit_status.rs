//! How a cell ended, judged from what the host itself saw.

use cellblock_protocol::guest::Done;
use cellblock_protocol::{Backend, CellError, Obstacle, Status};
use cellblock_sandbox::Exit;

/// Why the host ended a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The head ended by itself.
    Itself,
    /// The cell's time was over.
    Timeout,
    /// A person interrupted it and it did not listen.
    Interrupt,
    /// The session used more than a limit allows.
    Limit(LimitHit),
    /// The head sent a frame that no honest guest sends.
    Forged(String),
}

/// A limit that a cell ran into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LimitHit {
    Memory {
        limit: u64,
        /// The most bytes that the interpreter's process held; 0 where that is not known.
        interpreter_bytes: u64,
    },
    Disk {
        limit: u64,
    },
    Files {
        limit: usize,
    },
    /// Objects that the kernel counts for each user, and so for the host's own.
    UserObjects,
    /// Directories so deep, or names so long, that the host cannot look at them all.
    TooDeep,
}

/// The part of a result that says how the process ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExitStatus {
    pub(crate) status: Status,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) error: Option<CellError>,
}

impl ExitStatus {
    /// The cell ran to its end and the head lives.
    pub(crate) fn of_done(done: &Done, interrupted: bool) -> ExitStatus {
        let status = match (done.ok, interrupted) {
            (true, _) => Status::Success,
            (false, true) => Status::Interrupted,
            (false, false) => Status::Failure,
        };
        ExitStatus {
            status,
            exit_code: None,
            signal: None,
            error: done.error.clone(),
        }
    }

    /// The head ended.
    pub(crate) fn of_exit(exit: Exit, ending: &Ending) -> ExitStatus {
        let (exit_code, signal) = match exit {
            Exit::Code(code) => (Some(code), None),
            Exit::Signal(signal) => (None, Some(signal)),
        };
        let (status, error) = match ending {
            Ending::Timeout => (Status::Timeout, None),
            Ending::Interrupt => (Status::Interrupted, None),
            Ending::Limit(hit) => (Status::Crashed, Some(hit.explain())),
            Ending::Forged(what) => (
                Status::Crashed,
                Some(plain(
                    "ProtocolError",
                    &format!(
                        "the session's process sent something that makes no sense ({what}); it was ended"
                    ),
                )),
            ),
            Ending::Itself => (Status::Crashed, None),
        };
        ExitStatus {
            status,
            exit_code,
            signal,
            error,
        }
    }
}

impl ExitStatus {
    /// No process is left that could say how the head ended.
    pub(crate) fn of_loss(backend: Backend, reason: &str) -> ExitStatus {
        let verdict = ExitStatus::of_exit(Exit::Signal(9), &Ending::Itself);
        match backend {
            Backend::Local => verdict,
            Backend::Docker => ExitStatus {
                error: Some(plain("ContainerLost", reason)),
                ..verdict
            },
        }
    }
}

impl LimitHit {
    /// Why a session is over that went over a limit while no cell ran.
    pub(crate) fn reason(&self) -> String {
        let what = match self {
            LimitHit::Memory { limit, .. } => {
                format!("needed more than its {} of memory", size(*limit))
            }
            LimitHit::Disk { limit } => {
                format!("wrote more than its {} to the workspace", size(*limit))
            }
            LimitHit::UserObjects => {
                "held more of the kernel's objects than one session may".to_owned()
            }
            LimitHit::TooDeep => "made directories that are nested too deep".to_owned(),
            LimitHit::Files { limit } => format!("made more than {limit} files in the workspace"),
        };
        format!("what a cell left running {what}")
    }

    /// The limit that can be raised against it.
    fn obstacle(&self) -> Option<Obstacle> {
        match self {
            LimitHit::Memory { .. } => Some(Obstacle::Memory),
            LimitHit::Disk { .. } => Some(Obstacle::Disk),
            LimitHit::UserObjects | LimitHit::TooDeep | LimitHit::Files { .. } => None,
        }
    }

    fn explain(&self) -> CellError {
        let mut error = self.words();
        error.obstacle = self.obstacle();
        error
    }

    fn words(&self) -> CellError {
        match self {
            LimitHit::Memory {
                limit,
                interpreter_bytes,
            } => {
                // Otherwise a person looks for the memory in vain among the variables.
                let others = if (1..*limit).contains(interpreter_bytes) {
                    format!(
                        ", although its interpreter took only {}: processes that it started count too, and so does the last checkpoint, which keeps the values that a cell replaces",
                        size(*interpreter_bytes)
                    )
                } else {
                    String::new()
                };
                plain(
                    "MemoryLimit",
                    &format!(
                        "the session needed more than its {} of memory and was ended{others}; work on less at a time, or raise the limit `memory`",
                        size(*limit)
                    ),
                )
            }
            LimitHit::UserObjects => plain(
                "KernelLimit",
                "the session held more of the kernel's objects than one session may (32 768 watches of epoll, 16 384 locks on files) and was ended; use fewer at a time",
            ),
            LimitHit::Disk { limit } => plain(
                "DiskLimit",
                &format!(
                    "the session wrote more than its {} to the workspace and was ended; delete what is not needed, or raise the limit `disk`",
                    size(*limit)
                ),
            ),
            LimitHit::TooDeep => plain(
                "DiskLimit",
                "the session made directories in the workspace that are nested deeper than a path can be long (4 095 bytes), or with longer names in all than 32 MiB, and was ended",
            ),
            LimitHit::Files { limit } => plain(
                "DiskLimit",
                &format!("the session made more than {limit} files in the workspace and was ended"),
            ),
        }
    }
}

/// An error of the host's making: no frames, for no code of the user's raised it.
fn plain(kind: &str, message: &str) -> CellError {
    CellError {
        type_: kind.to_owned(),
        value: message.to_owned(),
        repr: format!("{kind}({message:?})"),
        traceback: format!("{kind}: {message}\n"),
        ..CellError::default()
    }
}

fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// Why a session is over whose head died with no cell to blame.
pub(crate) fn died_idle(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("its process ended with exit code {code}"),
        Exit::Signal(signal) => format!("its process was ended by signal {signal}"),
    }
}

impl Ending {
    /// Why a session is over after a cell that ended like this.
    pub(crate) fn reason(&self, exit: Exit) -> String {
        match self {
            Ending::Timeout => "a cell ran out of time".to_owned(),
            Ending::Interrupt => "a cell was interrupted and did not stop".to_owned(),
            Ending::Limit(_) => "a cell went over a limit".to_owned(),
            Ending::Forged(_) => "a cell wrote to our channel".to_owned(),
            Ending::Itself => died_idle(exit),
        }
    }
}
