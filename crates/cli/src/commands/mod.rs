//! The commands, one module each.

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
pub(crate) mod exec_notebook;
pub(crate) mod jupyter;
pub(crate) mod mcp;
pub(crate) mod model;
pub(crate) mod pipe;
pub(crate) mod repl;
pub(crate) mod runs;
#[cfg_attr(not(feature = "server"), path = "serve_absent.rs")]
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod setup;
pub(crate) mod tools;
pub(crate) mod trace;
