//! The commands, one module each.

#[cfg(not(feature = "cluster"))]
mod absent;
pub(crate) mod ask;
pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod clean;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod env;
pub(crate) mod eval;
pub(crate) mod exec;
#[cfg_attr(not(feature = "jupyter"), path = "exec_notebook_absent.rs")]
pub(crate) mod exec_notebook;
#[cfg_attr(not(feature = "jupyter"), path = "jupyter_absent.rs")]
pub(crate) mod jupyter;
#[cfg_attr(not(feature = "mcp"), path = "mcp_absent.rs")]
pub(crate) mod mcp;
pub(crate) mod model;
#[cfg_attr(not(feature = "cluster"), path = "nodes_absent.rs")]
pub(crate) mod nodes;
pub(crate) mod pipe;
pub(crate) mod repl;
pub(crate) mod runs;
#[cfg_attr(not(feature = "server"), path = "serve_absent.rs")]
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod setup;
pub(crate) mod tools;
pub(crate) mod trace;
