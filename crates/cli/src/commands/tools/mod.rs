//! `cellblock tools`: what models can call, and calling it by hand.

mod call;
mod list;

use crate::terminal::Console;
use call::CallArgs;
use clap::{Args, Subcommand};
use list::ListArgs;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct ToolsArgs {
    #[command(subcommand)]
    command: Option<ToolsCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum ToolsCommand {
    /// Call a tool by hand
    Call(Box<CallArgs>),
}

const EXAMPLES: &str = "\
Examples:
  cellblock tools                       every tool with its parameters
  cellblock tools undo                  one of them
  cellblock tools --json                their schemas, as a model gets them
  cellblock tools call list_files '{}'  call one";

/// Lists or calls.
pub(crate) fn run(args: ToolsArgs, console: &Console) -> anyhow::Result<ExitCode> {
    match args.command {
        None => list::run(&args.list, console),
        Some(ToolsCommand::Call(call)) => call::run(&call, console),
    }
}
