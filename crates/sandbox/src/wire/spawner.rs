//! Messages to and from the spawner of a session, and the supervisors of the processes that it started.

use super::messages::Exit;
use crate::Error;
use crate::SpawnRequest;
use crate::launch::item;
use cellblock_native::wire::config::{Item, SpawnProcess};
use cellblock_native::wire::message::{Message, Stage, from_spawner, to_init, to_supervisor};
use std::io;
use std::path::Path;
use std::time::Duration;

/// The longest request for a process, in bytes of its arguments and variables.
pub const MAX_PROCESS_REQUEST_BYTES: usize = SpawnProcess::MAX_BYTES;
/// Most arguments of a process, and most variables.
pub const MAX_PROCESS_STRINGS: usize = SpawnProcess::MAX_STRINGS;

/// The message that asks init for the spawner of a session with this request. Two sockets go with it: that of the spawner, and one on which init
/// takes [`end_request`]s.
pub fn spawner_request(request: &SpawnRequest) -> Vec<u8> {
    let message = Message {
        kind: to_init::START_SPAWNER,
        ..Message::default()
    };
    let mut bytes = message.to_bytes().to_vec();
    bytes.extend_from_slice(&request.to_bytes());
    bytes
}

/// The request for one process, in the wire form.
#[derive(Clone, Debug)]
pub struct ProcessRequest {
    record: SpawnProcess,
    items: Vec<u8>,
    strings: usize,
}

impl ProcessRequest {
    /// A process with pipes as its standard streams, in this directory.
    pub fn new(directory: &str) -> Result<ProcessRequest, Error> {
        let request = ProcessRequest {
            record: SpawnProcess::default(),
            items: Vec::new(),
            strings: 0,
        };
        request.item(Item::Home, directory)
    }

    /// A terminal comes in place of the pipes.
    pub fn with_terminal(mut self) -> ProcessRequest {
        self.record.has_terminal = 1;
        self
    }

    /// The next path at which the program may be.
    pub fn program(self, path: &str) -> Result<ProcessRequest, Error> {
        self.item(Item::Program, path)
    }

    /// The next argument; the first is the program's name.
    pub fn argument(self, text: &str) -> Result<ProcessRequest, Error> {
        self.item(Item::Argument, text)
    }

    /// One variable of the environment.
    pub fn variable(self, name: &str, value: &str) -> Result<ProcessRequest, Error> {
        self.item(Item::Variable, &format!("{name}={value}"))
    }

    /// The wire form. An error where it is too long.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = self.record.to_bytes().to_vec();
        bytes.extend_from_slice(&self.items);
        if bytes.len() > MAX_PROCESS_REQUEST_BYTES || self.strings > MAX_PROCESS_STRINGS {
            return Err(Error::system(
                "sending the arguments and the environment of a process",
                rustix::io::Errno::TOOBIG,
            ));
        }
        Ok(bytes)
    }

    fn item(mut self, tag: Item, text: &str) -> Result<ProcessRequest, Error> {
        self.items
            .extend(item(tag, Path::new(text), Path::new(""))?);
        self.strings += 1;
        Ok(self)
    }
}

/// What the spawner or a supervisor tells the host. Neither ever runs code of the user's, so this is evidence.
#[derive(Debug)]
pub enum FromSpawner {
    /// The process runs; or the spawner itself does, and has no supervisor.
    Started {
        /// The process, by its id in the session.
        pid: u32,
        /// Its supervisor, by its id in the session.
        supervisor: u32,
    },
    /// The process could not be started.
    Failed(SpawnFailure),
    /// The process ended. What it started may go on.
    Ended {
        /// How.
        exit: Exit,
        /// CPU time, with that of its children.
        cpu: Duration,
        /// The most bytes it held.
        peak_bytes: u64,
    },
}

/// Why a process could not be started.
#[derive(Debug)]
pub struct SpawnFailure {
    /// Which step failed.
    pub step: SpawnStep,
    /// What the kernel said.
    pub source: io::Error,
}

/// A step on the way to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnStep {
    /// The working directory.
    Directory,
    /// The program.
    Execute,
    /// Anything else, in words.
    Other(&'static str),
}

impl FromSpawner {
    /// Reads the wire form.
    pub fn from_bytes(bytes: &[u8]) -> Result<FromSpawner, Error> {
        let refused = || Error::Protocol {
            process: "the spawner",
        };
        let (message, _) = Message::from_bytes(bytes).map_err(|_| refused())?;
        Ok(match message.kind {
            from_spawner::STARTED => FromSpawner::Started {
                pid: message.a as u32,
                supervisor: message.b as u32,
            },
            from_spawner::FAILED => FromSpawner::Failed(SpawnFailure {
                step: match Stage::from_number(message.a) {
                    Some(Stage::Home) => SpawnStep::Directory,
                    Some(Stage::Execute) => SpawnStep::Execute,
                    _ => SpawnStep::Other(Stage::describe(message.a)),
                },
                source: io::Error::from_raw_os_error(message.b as i32),
            }),
            from_spawner::ENDED => FromSpawner::Ended {
                exit: Exit::from_status(message.a),
                cpu: Duration::from_micros(message.b),
                peak_bytes: message.c,
            },
            _ => return Err(refused()),
        })
    }
}

/// The message that has init end everything below the supervisor of a process.
pub fn end_request(supervisor: u32) -> Vec<u8> {
    let message = Message {
        kind: to_init::END_SPAWNED,
        a: supervisor.into(),
        ..Message::default()
    };
    message.to_bytes().to_vec()
}

/// The message that has a supervisor send a signal to the group of its process.
pub fn signal_request(signal: i32) -> Vec<u8> {
    let message = Message {
        kind: to_supervisor::SIGNAL,
        a: signal.unsigned_abs().into(),
        ..Message::default()
    };
    message.to_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_too_long_is_refused_before_it_is_sent() {
        let request = || ProcessRequest::new("/workspace").unwrap();
        assert!(request().argument("x").unwrap().to_bytes().is_ok());
        let long = "x".repeat(MAX_PROCESS_REQUEST_BYTES);
        assert!(request().argument(&long).unwrap().to_bytes().is_err());
        let mut many = request();
        for _ in 0..=MAX_PROCESS_STRINGS {
            many = many.argument("x").unwrap();
        }
        assert!(many.to_bytes().is_err());
        assert!(request().argument("nul\0byte").is_err());
    }
}
