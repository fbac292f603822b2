//! The commands, one module each.

pub(crate) mod ask;
pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod env;
pub(crate) mod eval;
pub(crate) mod exec;
mod live;
mod making;
pub(crate) mod mcp;
mod outcome;
pub(crate) mod pipe;
mod plots;
pub(crate) mod repl;
pub(crate) mod runs;
mod runtime;
pub(crate) mod sessions;
pub(crate) mod setup;
mod toolbox;
pub(crate) mod tools;
pub(crate) mod trace;
