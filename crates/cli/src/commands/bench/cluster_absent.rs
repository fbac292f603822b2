//! `cellblock bench --cluster` in a program that was built without clusters.

use super::BenchArgs;
use crate::failure::built_without;
use crate::terminal::Console;
use std::process::ExitCode;

/// Says how to get a program with clusters.
pub(super) fn run(_args: &BenchArgs, _console: &Console) -> anyhow::Result<ExitCode> {
    Err(built_without("clusters"))
}
