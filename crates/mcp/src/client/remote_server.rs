//! A server of someone else's, as the configuration describes it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A server to start or to reach.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RemoteServer {
    /// Its name: letters, digits, `_` and `-`. Its tools carry it.
    pub name: String,
    /// What it is.
    pub at: Where,
    /// How long it may take until it has told its tools. Default 30 s.
    pub start_limit: Duration,
    /// How long one call may take. Default 120 s.
    pub call_limit: Duration,
    /// Which of its tools run without a person's approval.
    pub trust: Trust,
    /// Only these of its tools, by the names it gives them; all when empty.
    pub only: Vec<String>,
}

/// Where a server is.
#[derive(Clone)]
pub enum Where {
    /// A program that we start, and that speaks on its standard input and output.
    Program {
        /// The program.
        command: String,
        /// Its arguments.
        arguments: Vec<String>,
        /// What its environment has besides `PATH`, `HOME` and the language: credentials, for example.
        environment: BTreeMap<String, String>,
        /// Its working directory.
        directory: Option<PathBuf>,
    },
    /// An address for streamable HTTP.
    Address {
        /// The address.
        url: String,
        /// Sent as `Authorization: Bearer …`.
        token: Option<String>,
        /// Sent with every request.
        headers: BTreeMap<String, String>,
    },
}

/// Whose word counts for what a tool does to the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The server's: what it calls read-only runs unasked, everything else counts as an effect outside.
    #[default]
    Hints,
    /// Nobody's: every tool counts as an effect outside.
    Nothing,
    /// The user's: no tool of this server needs approval.
    Everything,
}

impl RemoteServer {
    /// A program.
    pub fn program(
        name: impl Into<String>,
        command: impl Into<String>,
        arguments: impl IntoIterator<Item = impl Into<String>>,
    ) -> RemoteServer {
        RemoteServer::new(
            name,
            Where::Program {
                command: command.into(),
                arguments: arguments.into_iter().map(Into::into).collect(),
                environment: BTreeMap::new(),
                directory: None,
            },
        )
    }

    /// An address.
    pub fn address(name: impl Into<String>, url: impl Into<String>) -> RemoteServer {
        RemoteServer::new(
            name,
            Where::Address {
                url: url.into(),
                token: None,
                headers: BTreeMap::new(),
            },
        )
    }

    /// Either of them.
    pub fn new(name: impl Into<String>, at: Where) -> RemoteServer {
        RemoteServer {
            name: name.into(),
            at,
            start_limit: Duration::from_secs(30),
            call_limit: Duration::from_secs(120),
            trust: Trust::default(),
            only: Vec::new(),
        }
    }
}

/// Without anything that may be a credential.
impl fmt::Debug for Where {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Where::Program { command, .. } => out.debug_tuple("Program").field(command).finish(),
            Where::Address { .. } => out.debug_tuple("Address").finish(),
        }
    }
}
