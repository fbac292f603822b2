//! The Model Context Protocol: Cellblock as a server, and as a client that uses the tools of other servers.
//!
//! A [`Server`] offers a registry of tools to MCP clients, each with a session of its own. [`RemoteServer`]s are programs or addresses
//! that speak the protocol; [`connect`] adds their tools to a registry.
#![forbid(unsafe_code)]

mod client;
mod message_size;
mod open_requests;
mod server;

pub use crate::client::{
    Connected, MessageLimit, RemoteServer, ServerProblem, ServerTransport, Trust, connect,
    nesting_level,
};
pub use crate::server::{
    ClientQuota, ClientUser, Files, ForkTool, HttpEndpoint, HttpOptions, NewClient, Server,
    SessionPlace, VariablesTool, WriteFileTool, with_tools_for_clients,
};
