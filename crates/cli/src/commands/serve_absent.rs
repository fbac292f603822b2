//! `cellblock serve` in a program that was built without the server.

use crate::failure::Usage;
use crate::terminal::Console;
use clap::Args;
use std::process::ExitCode;

#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct ServeArgs {
    /// Not used: this program was built without the server
    #[arg(
        value_name = "ARGS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    _args: Vec<String>,
}

/// Says how to get a program with the server.
pub(crate) fn run(_args: &ServeArgs, _console: &Console) -> anyhow::Result<ExitCode> {
    Err(Usage::hinted(
        "this program was built without the server",
        "build it with all its parts: `cargo install --path crates/cli`",
    ))
}
