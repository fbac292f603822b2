//! Typed messages to and from init and the launcher.

use crate::Error;
use crate::SpawnRequest;
use cellblock_native::forks::inherited::Held;
use cellblock_native::wire::message::{Message, from_init, from_launcher, to_init, to_launcher};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the host tells init.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToInit {
    /// Send this signal to the head.
    Signal(i32),
    /// End the head and all it started; standbys stay, and this one goes on as the head.
    Sweep(Option<u32>),
    /// This process is a standby.
    Protect {
        /// Its id inside.
        pid: u32,
        /// Since when it can be there.
        origin: StandbyOrigin,
    },
    /// This standby is the head now.
    Wake(u32),
    /// This standby is not needed any more.
    Drop(u32),
    /// A fork is asked for in a moment.
    BeginFork,
    /// The fork that was begun or prepared is not wanted any more.
    CancelFork,
    /// To the init of a fork whose head is ready: look whether the fork still holds something of its parent's.
    CheckFork {
        /// The inode of the head's end of its channel.
        channel: u64,
    },
}

/// When a standby was made. Init accepts no older process as a standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandbyOrigin {
    /// After the head was asked for it.
    Since(BootTime),
    /// When its original was woken, which init knows.
    WhenWoken,
}

/// A point in time, in ticks since the machine was started: the clock of the start times of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootTime(u64);

impl BootTime {
    /// The current time.
    pub fn now() -> BootTime {
        BootTime(cellblock_native::sys::boot_ticks())
    }
}

impl ToInit {
    /// The wire form.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut b = 0;
        let (kind, a) = match self {
            ToInit::Signal(signal) => (to_init::SIGNAL, u64::from(signal.unsigned_abs())),
            ToInit::Sweep(next) => (to_init::SWEEP, next.unwrap_or(0).into()),
            ToInit::Protect { pid, origin } => {
                if let StandbyOrigin::Since(BootTime(ticks)) = origin {
                    // 0 is for the other case, and no process is that old.
                    b = ticks.max(1);
                }
                (to_init::PROTECT, pid.into())
            }
            ToInit::Wake(pid) => (to_init::WAKE, pid.into()),
            ToInit::Drop(pid) => (to_init::DROP, pid.into()),
            ToInit::BeginFork => (to_init::BEGIN_FORK, 0),
            ToInit::CancelFork => (to_init::CANCEL, 0),
            ToInit::CheckFork { channel } => (to_init::CHECK_FORK, channel),
        };
        Message { kind, a, b, c: 0 }.to_bytes().to_vec()
    }
}

/// What init tells the host. It never runs code of the user's, so this is evidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FromInit {
    /// The session stands, with this process as its head.
    Started {
        /// Its id inside.
        head: u32,
        /// Whether init asks before files are changed.
        asks: bool,
    },
    /// The head ended and nothing it started is left.
    Ended(HeadExit),
    /// Whether this process is protected as a standby now.
    Protected {
        /// Which.
        pid: u32,
        /// Whether it worked.
        done: bool,
    },
    /// Whether this standby was woken.
    Woken {
        /// Which.
        pid: u32,
        /// Whether it worked.
        done: bool,
    },
    /// This standby died.
    Lost {
        /// Which.
        pid: u32,
    },
    /// A socket comes along that listens on the session's loopback: one of the ports that were asked for.
    LoopbackSocket {
        /// In the order in which they were asked for.
        number: usize,
    },
    /// Whether the init and the namespaces of a fork stand.
    Prepared(Result<(), ForkFailure>),
    /// What the look at a new fork found.
    ForkChecked(ForkFinding),
}

/// What init found in a new fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkFinding {
    /// Nothing of its parent's.
    Clean,
    /// Not all of its processes could be stopped now.
    NotNow,
    /// Something that it must not hold.
    Held {
        /// In words.
        what: &'static str,
        /// The number of the descriptor, if it has one.
        descriptor: Option<u64>,
    },
}

impl ForkFinding {
    fn of(message: &Message) -> ForkFinding {
        match message.a {
            0 => ForkFinding::Clean,
            1 => ForkFinding::NotNow,
            _ => ForkFinding::Held {
                what: describe_held(message.b),
                descriptor: Some(message.c).filter(|number| *number > 0),
            },
        }
    }
}

/// What a fork holds and must not, in words.
fn describe_held(number: u64) -> &'static str {
    const FILE: u64 = Held::File as u64;
    const SOCKET: u64 = Held::Socket as u64;
    const DESCRIPTORS: u64 = Held::Descriptors as u64;
    const SOCKET_OUTSIDE: u64 = Held::SocketOutside as u64;
    const DIRECTORY: u64 = Held::Directory as u64;
    match number {
        FILE => "a file of its parent",
        SOCKET => "a socket of its parent",
        DESCRIPTORS => "a socket in which descriptors wait",
        SOCKET_OUTSIDE => "a socket that leads out of it",
        DIRECTORY => "a directory or a program of its parent",
        _ => "something that could not be looked at",
    }
}

/// Why a fork could not be prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkFailure {
    stage: u64,
    errno: u64,
}

impl ForkFailure {
    /// Whether the kernel allows no more namespaces, or none so deep.
    pub fn is_namespace_limit(self) -> bool {
        self.errno == rustix::io::Errno::NOSPC.raw_os_error() as u64
            || self.errno == rustix::io::Errno::USERS.raw_os_error() as u64
    }
}

impl From<ForkFailure> for Error {
    fn from(ForkFailure { stage, errno }: ForkFailure) -> Error {
        Error::build("the fork", stage, errno)
    }
}

/// The end of a head, in init's word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadExit {
    /// How.
    pub exit: Exit,
    /// Because init ended it for this.
    pub over: Option<ExceededLimit>,
    /// CPU time in its whole life, with its children's.
    pub cpu: Duration,
    /// The most bytes it held.
    pub peak_bytes: u64,
}

/// A limit of which init saw that a session is over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceededLimit {
    /// Memory, that of the kernel included.
    Memory,
    /// Objects that the kernel counts for each user.
    UserObjects,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    pub(super) fn from_status(status: u64) -> Exit {
        let status = status as u32;
        match status & 0x7F {
            0 => Exit::Code((status >> 8 & 0xFF) as i32),
            signal => Exit::Signal(signal as i32),
        }
    }
}

impl FromInit {
    /// Reads the wire form; a failure to build the session is an error.
    pub fn from_bytes(bytes: &[u8]) -> Result<FromInit, Error> {
        let (message, _) =
            Message::from_bytes(bytes).map_err(|_| Error::Protocol { process: "init" })?;
        let pid = message.a as u32;
        let done = message.b == 0;
        Ok(match message.kind {
            from_init::STARTED => FromInit::Started {
                head: pid,
                asks: message.b == 1,
            },
            from_init::FAILED => return Err(Error::build("the session", message.a, message.b)),
            from_init::ENDED => FromInit::Ended(HeadExit {
                exit: Exit::from_status(message.a),
                over: match message.b & 0xFF {
                    1 => Some(ExceededLimit::Memory),
                    2 => Some(ExceededLimit::UserObjects),
                    _ => None,
                },
                cpu: Duration::from_micros(message.b >> 8),
                peak_bytes: message.c,
            }),
            from_init::PROTECTED => FromInit::Protected { pid, done },
            from_init::WOKEN => FromInit::Woken { pid, done },
            from_init::LOST => FromInit::Lost { pid },
            from_init::LOOPBACK_SOCKET => FromInit::LoopbackSocket {
                number: message.a as usize,
            },
            from_init::PREPARED => FromInit::Prepared(match message.b {
                0 => Ok(()),
                errno => Err(ForkFailure {
                    stage: message.a,
                    errno,
                }),
            }),
            from_init::FORK_CHECKED => FromInit::ForkChecked(ForkFinding::of(&message)),
            _ => return Err(Error::Protocol { process: "init" }),
        })
    }
}

/// A call that waits until the host has kept what it is about to change. It comes on a socket of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingChange {
    /// The call.
    pub call: u64,
    /// The file, below the workspace.
    pub path: PathBuf,
    /// What becomes of what is in it.
    pub how: Change,
}

/// What a call does to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its contents may change.
    Writes,
    /// Its name will stand for nothing or for something else; no process writes to it.
    Removes,
    /// Its owner, its permissions and the like may change; its contents stay.
    Marks,
    /// It gets one more name.
    Names,
}

impl PendingChange {
    /// Reads the wire form.
    pub fn from_bytes(bytes: &[u8]) -> Result<PendingChange, Error> {
        let refused = || Error::Protocol { process: "init" };
        let (message, path) = Message::from_bytes(bytes).map_err(|_| refused())?;
        if message.kind != from_init::CHANGING {
            return Err(refused());
        }
        Ok(PendingChange {
            call: message.a,
            path: PathBuf::from(OsStr::from_bytes(path)),
            how: match message.b {
                1 => Change::Removes,
                2 => Change::Marks,
                3 => Change::Names,
                _ => Change::Writes,
            },
        })
    }

    /// The answer: the call may go on.
    pub fn kept(&self, scope: KeptScope) -> Vec<u8> {
        let told = match scope {
            KeptScope::TheFile { own } => own.unwrap_or(0),
            KeptScope::Removed => 0,
            KeptScope::TheDirectory => 1,
        };
        on_file_socket(to_init::KEPT, self.call, told, 0)
    }

    /// The answer: the call must not go on, and fails with this error.
    pub fn refused(&self, error: &io::Error) -> Vec<u8> {
        let number = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
        on_file_socket(to_init::KEPT, self.call, 0, number.unsigned_abs().into())
    }

    /// Tells init what to ask about: what was last written at this time (nanoseconds since 1970) or before.
    pub fn ask_about_older(nanoseconds: u64) -> Vec<u8> {
        on_file_socket(to_init::KEEP_OLDER, nanoseconds, 0, 0)
    }
}

/// What was kept before a call went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptScope {
    /// What was needed of the file. This is its inode, if no other session has it.
    TheFile {
        /// Its number.
        own: Option<u64>,
    },
    /// A file that is about to be removed.
    Removed,
    /// All files in its directory: none of them need be asked about before it is removed.
    TheDirectory,
}

fn on_file_socket(kind: u64, a: u64, b: u64, c: u64) -> Vec<u8> {
    Message { kind, a, b, c }.to_bytes().to_vec()
}

/// What the launcher tells the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromLauncher {
    /// Python was executed.
    Started,
    /// The mount that was asked for comes with this message.
    Mounted,
    /// The zygote ended.
    ZygoteEnded(Exit),
}

impl FromLauncher {
    /// Reads the wire form; a failure is an error.
    pub fn from_bytes(bytes: &[u8]) -> Result<FromLauncher, Error> {
        let (message, _) = Message::from_bytes(bytes).map_err(|_| Error::Protocol {
            process: "the launcher",
        })?;
        Ok(match message.kind {
            from_launcher::STARTED => FromLauncher::Started,
            from_launcher::MOUNTED => FromLauncher::Mounted,
            from_launcher::ZYGOTE_ENDED => FromLauncher::ZygoteEnded(Exit::from_status(message.a)),
            from_launcher::FAILED => {
                return Err(Error::build("the launcher", message.a, message.b));
            }
            _ => {
                return Err(Error::Protocol {
                    process: "the launcher",
                });
            }
        })
    }
}

/// Asks init for the namespaces of a fork; the descriptors of the request go along.
pub fn fork_request(request: &SpawnRequest) -> Vec<u8> {
    let message = Message {
        kind: to_init::FORK,
        ..Message::default()
    };
    let mut bytes = message.to_bytes().to_vec();
    bytes.extend(request.to_bytes());
    bytes
}

/// Asks the launcher for a mount of `path`, which belongs to `owner` and `group` on disk and to `user` in the session.
pub fn mount_request(path: &Path, owner: u32, group: u32, user: u32) -> Result<Vec<u8>, Error> {
    let message = Message {
        kind: to_launcher::MOUNT,
        a: owner.into(),
        b: group.into(),
        c: user.into(),
    };
    let mut bytes = message.to_bytes().to_vec();
    bytes.extend_from_slice(crate::launch::path_to_c_string(path)?.as_bytes());
    bytes.push(0);
    Ok(bytes)
}
