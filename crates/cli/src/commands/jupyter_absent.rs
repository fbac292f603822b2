//! `cellblock jupyter` in a program that was built without Jupyter.

use crate::failure::built_without;
use crate::terminal::Console;
use std::process::ExitCode;

pub(crate) use super::absent::AbsentArgs as JupyterArgs;

/// Says how to get a program with Jupyter.
pub(crate) fn run(_args: JupyterArgs, _console: &Console) -> anyhow::Result<ExitCode> {
    Err(built_without("Jupyter"))
}
