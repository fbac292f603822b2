//! `cellblock serve` in a program that was built without the server.

use crate::failure::built_without;
use crate::terminal::Console;
use std::process::ExitCode;

pub(crate) use super::absent::AbsentArgs as ServeArgs;

/// Says how to get a program with the server.
pub(crate) fn run(_args: &ServeArgs, _console: &Console) -> anyhow::Result<ExitCode> {
    Err(built_without("the server"))
}
