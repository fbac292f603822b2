//! Bad input and bad luck: each gets a clear error or status, and nothing is lost.

mod code;
mod options;
mod pythons;
mod workspaces;

use crate::support::{builder, is_root, open, refusal, session, tool, wait};
use cellblock::{
    Cell, Error, Host, Limits, Preload, PythonChoice, Session, SessionOptions, Status,
};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a program and what a person is told.
fn words(error: Error) -> (&'static str, String) {
    (error.code(), error.to_string())
}
