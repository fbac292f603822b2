//! The command line.

mod environment;
mod result;
mod session;

use crate::commands::ask::AskArgs;
use crate::commands::bench::BenchArgs;
use crate::commands::chat::ChatArgs;
use crate::commands::completions::CompletionsArgs;
use crate::commands::config::ShowConfigArgs;
use crate::commands::demo::DemoArgs;
use crate::commands::doctor::DoctorArgs;
use crate::commands::env::EnvArgs;
use crate::commands::eval::EvalArgs;
use crate::commands::exec::ExecArgs;
use crate::commands::mcp::McpArgs;
use crate::commands::pipe::PipeArgs;
use crate::commands::repl::ReplArgs;
use crate::commands::runs::RunsArgs;
use crate::commands::sessions::SessionsArgs;
use crate::commands::setup::SetupArgs;
use crate::commands::tools::ToolsArgs;
use crate::commands::trace::TraceArgs;
use crate::terminal::ColorWish;
use clap::{Parser, Subcommand};

pub(crate) use environment::EnvironmentArgs;
pub(crate) use result::ResultArgs;
pub(crate) use session::{PythonArgs, SETUP_HINT, SessionArgs, duration, seconds};

/// Sealed, stateful, real Python sessions for language models
#[derive(Debug, Parser)]
#[command(name = "cellblock", version, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// When to use colours
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        hide_possible_values = true,
        help = "Colours: auto, always or never"
    )]
    pub(crate) color: ColorWish,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ask a model a question; it computes the answer with code that really runs
    Ask(Box<AskArgs>),
    /// Talk with a model over one session
    Chat(Box<ChatArgs>),
    /// List, show and remove what was asked before
    Runs(RunsArgs),
    /// Run tasks with checks against a model, and print how well it did
    Eval(Box<EvalArgs>),
    /// Run one snippet and end with its outcome
    Exec(ExecArgs),
    /// Work in a session at the terminal
    Repl(ReplArgs),
    /// Hold sessions for a program: JSON lines on standard input and output
    Pipe(PipeArgs),
    /// List, show, restore, export and remove the journals of sessions
    Sessions(SessionsArgs),
    /// Say what this machine can enforce, and what is missing
    Doctor(DoctorArgs),
    /// Take a short tour on real cells
    Demo(DemoArgs),
    /// Make the default environment: numpy, pandas, matplotlib and more
    Setup(SetupArgs),
    /// Make, list and remove environments: sets of packages that sessions run in
    Env(EnvArgs),
    /// List the tools that models can call, or call one by hand
    Tools(ToolsArgs),
    /// Say how everything is set, and who said so
    Config(Box<ShowConfigArgs>),
    /// Show where the time of a run went
    Trace(TraceArgs),
    /// Serve the tools to MCP clients, each with a session of its own
    Mcp(Box<McpArgs>),
    /// Measure the promises on this machine
    Bench(BenchArgs),
    /// Print the completions for a shell
    Completions(CompletionsArgs),
}

const EXAMPLES: &str = "\
Examples:
  cellblock demo                     a tour
  cellblock exec -c 'print(2**100)'  one snippet
  cellblock repl                     a session of your own
  cellblock help exec                all about a command";
