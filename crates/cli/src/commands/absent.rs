//! Commands in a program that was built without their part.

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
