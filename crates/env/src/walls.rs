//! What this crate asks of whoever has walls: rooms in which programs see and reach what they need, and nothing else.

use std::{ffi::OsString, fmt, path::Path, path::PathBuf, time::Duration};

use crate::{Cancel, Interpreter};

/// Whoever has walls.
pub trait Walls: fmt::Debug + Send + Sync {
    /// Opens a room. It is closed, and whatever still runs in it is ended, when the answer is dropped.
    fn open(&self, room: &Room) -> Result<Box<dyn OpenRoom>, NoRoom>;
}

/// A room behind walls, for one command after the other.
pub trait OpenRoom {
    /// What the room's directory is called in there.
    fn directory(&self) -> &Path;

    /// Runs a command. Its output goes to `line`.
    fn run(
        &mut self,
        order: &Order,
        cancel: &Cancel,
        line: &mut dyn FnMut(&str),
    ) -> Result<(), Failed>;

    /// Reads a file of the room's directory, never through a link that leads out of it.
    fn read(&self, name: &str) -> Result<Vec<u8>, String>;
}

/// How a room shall be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Room {
    /// The Python that it is for.
    pub interpreter: Interpreter,
    /// What can be read there, besides that.
    pub shown: Vec<PathBuf>,
    /// The hosts of the package indexes, each perhaps with a port: all of the network that can be reached.
    pub hosts: Vec<String>,
    /// What stands between this machine and them.
    pub proxies: Proxies,
    /// Where work is done, and the only place where anything can be written.
    pub directory: PathBuf,
    /// Which walls will do.
    pub strength: Strength,
    /// How long one command may take.
    pub limit: Duration,
}

/// Proxies, as the variables `http_proxy`, `https_proxy` and `no_proxy` have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proxies {
    /// For plain HTTP.
    pub http: Option<String>,
    /// For TLS.
    pub https: Option<String>,
    /// Hosts that are reached without.
    pub without: String,
}

/// Which walls will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// Every wall there is, or no room.
    Full,
    /// The best walls of this machine, but never none.
    Best,
}

/// A command.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Order {
    /// The program and its arguments. Relative paths are below the room's directory.
    pub command: Vec<OsString>,
    /// Its variables, and no others but those that lead to the network.
    pub variables: Vec<(OsString, OsString)>,
}

/// Why there is no room.
#[derive(Clone, Debug)]
pub enum NoRoom {
    /// This machine does not have such walls.
    NoWalls(String),
    /// Something else is in the way.
    Failed(String),
}

/// How a command failed.
#[derive(Clone, Debug, Default)]
pub struct Failed {
    /// `exit 1`, or in words.
    pub status: String,
    /// What it wanted to reach and could not, as host and port, with the reason.
    pub unreached: Vec<Unreached>,
}

/// A host that was asked for in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreached {
    /// The host, with its port unless that is the usual one.
    pub host: String,
    /// Why it was not reached.
    pub why: String,
    /// It is none of those that the room may reach.
    pub is_foreign: bool,
}

impl NoRoom {
    /// The reason.
    pub fn why(&self) -> &str {
        match self {
            Self::NoWalls(why) | Self::Failed(why) => why,
        }
    }
}
