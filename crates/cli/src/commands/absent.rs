//! Commands in a program that was built without their part.

use crate::failure::Usage;
use clap::Args;

/// The arguments of a command that is not there.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct AbsentArgs {
    /// Not used: this program was built without this command
    #[arg(
        value_name = "ARGS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    _args: Vec<String>,
}

/// Says how to get a program with this part.
pub(crate) fn built_without(part: &str) -> anyhow::Error {
    Usage::hinted(
        format!("this program was built without {part}"),
        "build it with all its parts: `cargo install --path crates/cli`",
    )
}
