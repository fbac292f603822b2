//! `cellblock nodes` in a program that was built without clusters.

use crate::failure::built_without;
use crate::terminal::Console;
use std::process::ExitCode;

pub(crate) use super::absent::AbsentArgs as NodesArgs;

/// Says how to get a program with clusters.
pub(crate) fn run(_args: &NodesArgs, _console: &Console) -> anyhow::Result<ExitCode> {
    Err(built_without("clusters"))
}
