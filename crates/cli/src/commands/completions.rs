//! `cellblock completions`: the script that makes a shell complete our commands.

use crate::args::Cli;
use crate::terminal::Console;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// bash, zsh, fish, elvish or powershell
    #[arg(value_name = "SHELL", hide_possible_values = true)]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  cellblock completions bash > ~/.local/share/bash-completion/completions/cellblock
  cellblock completions zsh > ~/.zfunc/_cellblock
  cellblock completions fish > ~/.config/fish/completions/cellblock.fish";

pub(crate) fn run(args: &CompletionsArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "cellblock", &mut script);
    console.print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
