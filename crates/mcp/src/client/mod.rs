//! Connects to other MCP servers, whose tools are offered as tools of a registry.

mod connect;
mod connection;
mod events;
mod http_client;
mod message_budget;
mod program;
mod tools;

pub use program::nesting_level;

use cellblock_tools::{DynamicTool, Registry};
use connection::ServerConnection;
use futures_util::future::join_all;
use rmcp::model::Tool;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Servers that are connected, and their tools.
pub struct Connected {
    /// Their tools, each under the name of its server: `search` of the server `web` is `web_search`.
    pub tools: Vec<Arc<dyn DynamicTool>>,
    /// The servers and tools that cannot be used, with the reasons.
    pub problems: Vec<ServerProblem>,
    connections: Vec<Arc<ServerConnection>>,
}

/// A server, or a tool of one, that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the MCP server `{server}`: {message}")]
pub struct ServerProblem {
    /// Its name in the configuration.
    pub server: String,
    /// What is wrong, for people.
    pub message: String,
}

/// Connects to servers, all at the same time, and asks for their tools. A server that fails is named in [`Connected::problems`]; the
/// others work.
pub async fn connect(servers: impl IntoIterator<Item = RemoteServer>) -> Connected {
    let mut connected = Connected {
        tools: Vec::new(),
        problems: Vec::new(),
        connections: Vec::new(),
    };
    let started = join_all(servers.into_iter().map(ServerConnection::start)).await;
    for outcome in started {
        match outcome {
            Ok((connection, offer)) => connected.take(connection, offer),
            Err(problem) => connected.problems.push(problem),
        }
    }
    connected
}

/// What a server offers.
struct Offer {
    tools: Vec<Tool>,
    has_resources: bool,
    /// What the user should know about the offer: a tool is missing, or there are too many.
    warning: Option<String>,
}

impl Connected {
    /// Closes all connections, and ends the programs that were started for them.
    pub async fn close(&self) {
        join_all(self.connections.iter().map(|connection| connection.close())).await;
    }

    fn take(&mut self, connection: Arc<ServerConnection>, offer: Offer) {
        let server = connection.name().to_owned();
        let mut tools = tools::remote_tools(&connection, offer.tools);
        if offer.has_resources {
            tools.extend(tools::resource_tools(&connection));
        }
        let mut warnings: Vec<String> = offer.warning.into_iter().collect();
        let mut kept: Vec<Arc<dyn DynamicTool>> = Vec::new();
        for tool in tools {
            // A tool that cannot be used must not make the others unusable.
            let beside = kept.iter().cloned().chain([Arc::clone(&tool)]);
            match Registry::builder().extend(beside).build() {
                Ok(_) => kept.push(tool),
                Err(error) => warnings.push(format!("a tool is left out: {error}")),
            }
        }
        self.tools.extend(kept);
        self.problems
            .extend(warnings.into_iter().map(|message| ServerProblem {
                server: server.clone(),
                message,
            }));
        self.connections.push(connection);
    }
}

impl fmt::Debug for Connected {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .connections
            .iter()
            .map(|connection| connection.name())
            .collect();
        out.debug_struct("Connected")
            .field("servers", &names)
            .field("problems", &self.problems)
            .finish_non_exhaustive()
    }
}

/// How many messages a server may send that answer no call: notifications, and requests of its own. A server that sends more is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLimit {
    /// How many at once. Default 20 000.
    pub at_once: u32,
    /// How many more in each second. Default 2 000.
    pub per_second: u32,
}

impl Default for MessageLimit {
    fn default() -> MessageLimit {
        MessageLimit {
            at_once: 20_000,
            per_second: 2_000,
        }
    }
}

/// The reason for the end of a server that sent more.
impl fmt::Display for MessageLimit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MessageLimit {
            at_once,
            per_second,
        } = self;
        write!(
            out,
            "it sent more than {at_once} messages that answer no call, or more than {per_second} in a second for long (of a long message, every 4 KiB count as one more), and was ended"
        )
    }
}

/// A server to start or to reach.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RemoteServer {
    /// Its name: letters, digits, `_` and `-`. The names of its tools begin with it.
    pub name: String,
    /// How it is reached.
    pub transport: ServerTransport,
    /// How long the server may take to start and to list its tools. Default 30 s.
    pub start_limit: Duration,
    /// How long one call may take. Default 120 s.
    pub call_limit: Duration,
    /// How long a program may read nothing of what waits for it before it is ended. Default 30 s.
    pub unread_limit: Duration,
    /// How many messages it may send that answer no call.
    pub message_limit: MessageLimit,
    /// Which of its tools run without approval.
    pub trust: Trust,
    /// Only these of its tools, by the names it gives them; all when empty.
    pub only: Vec<String>,
}

/// How a server is reached.
#[derive(Clone)]
pub enum ServerTransport {
    /// A program that is started, and speaks on its standard input and output.
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

/// Which tools of a server run without approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those that the server calls read-only. Every other tool counts as an effect outside.
    #[default]
    Hints,
    /// None: every tool counts as an effect outside.
    Nothing,
    /// All: no tool of this server needs approval.
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
            ServerTransport::Program {
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
            ServerTransport::Address {
                url: url.into(),
                token: None,
                headers: BTreeMap::new(),
            },
        )
    }

    /// A server that is reached in this way.
    pub fn new(name: impl Into<String>, transport: ServerTransport) -> RemoteServer {
        RemoteServer {
            name: name.into(),
            transport,
            start_limit: Duration::from_secs(30),
            call_limit: Duration::from_secs(120),
            unread_limit: Duration::from_secs(30),
            message_limit: MessageLimit::default(),
            trust: Trust::default(),
            only: Vec::new(),
        }
    }
}

/// Shows nothing that may be a credential.
impl fmt::Debug for ServerTransport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerTransport::Program { command, .. } => {
                out.debug_tuple("Program").field(command).finish()
            }
            ServerTransport::Address { .. } => out.debug_tuple("Address").finish(),
        }
    }
}
