//! The command line: parses it, runs the command, and turns its outcome into an exit status.

use crate::commands::ask::AskArgs;
use crate::commands::bench::BenchArgs;
use crate::commands::chat::ChatArgs;
use crate::commands::clean::CleanArgs;
use crate::commands::config::ShowConfigArgs;
use crate::commands::demo::DemoArgs;
use crate::commands::doctor::DoctorArgs;
use crate::commands::env::EnvArgs;
use crate::commands::eval::EvalArgs;
use crate::commands::exec::ExecArgs;
use crate::commands::jupyter::JupyterArgs;
use crate::commands::mcp::McpArgs;
use crate::commands::model::ModelCommandArgs;
use crate::commands::nodes::NodesArgs;
use crate::commands::pipe::PipeArgs;
use crate::commands::repl::ReplArgs;
use crate::commands::runs::RunsArgs;
use crate::commands::serve::ServeArgs;
use crate::commands::sessions::SessionsArgs;
use crate::commands::setup::SetupArgs;
use crate::commands::tools::ToolsArgs;
use crate::commands::trace::TraceArgs;
use crate::terminal::{ColorChoice, Console};
use crate::{commands, failure, process};
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs the command that was asked for.
pub(crate) fn main() -> ExitCode {
    if let Err(error) = process::prepare_stack() {
        return failure::report(&error, &Console::new(ColorChoice::Auto));
    }
    let Cli { color, command } = match Cli::try_parse() {
        Ok(parsed) => parsed,
        Err(error) => return print_usage(&error),
    };
    let console = Console::new(color);
    if let Err(error) = process::prepare() {
        return failure::report(&error, &console);
    }
    let outcome = match command {
        Command::Ask(args) => commands::ask::run(&args, &console),
        Command::Chat(args) => commands::chat::run(&args, &console),
        Command::Eval(args) => commands::eval::run(*args, &console),
        Command::Runs(args) => commands::runs::run(args, &console),
        Command::Model(args) => commands::model::run(args, &console),
        Command::Exec(args) => commands::exec::run(args, &console),
        Command::Repl(args) => commands::repl::run(args, console.clone()),
        Command::Pipe(args) => commands::pipe::run(args, &console),
        Command::Sessions(args) => commands::sessions::run(args, &console),
        Command::Clean(args) => commands::clean::run(&args, &console),
        Command::Doctor(args) => commands::doctor::run(&args, &console),
        Command::Demo(args) => commands::demo::run(args, console.clone()),
        Command::Setup(args) => commands::setup::run(&args, &console),
        Command::Env(args) => commands::env::run(args, &console),
        Command::Tools(args) => commands::tools::run(args, &console),
        Command::Config(args) => commands::config::run(&args, &console),
        Command::Trace(args) => commands::trace::run(&args, &console),
        Command::Jupyter(args) => commands::jupyter::run(args, &console),
        Command::Mcp(args) => commands::mcp::run(*args, &console),
        Command::Serve(args) => commands::serve::run(&args, &console),
        Command::Nodes(args) => commands::nodes::run(&args, &console),
        Command::Bench(args) => commands::bench::run(args, &console),
        Command::Completions(args) => print_completions(&args, &console),
        Command::Man(args) => write_man_pages(&args),
    };
    outcome.unwrap_or_else(|error| failure::report(&error, &console))
}

/// Prints what is wrong with the command line (status 2), or what `--help` and `--version` ask for (status 0). The text may hold the name
/// of a file, so it is cleaned like all output.
fn print_usage(error: &clap::Error) -> ExitCode {
    let console = Console::new(ColorChoice::Never);
    let text = error.render().to_string();
    if error.use_stderr() {
        console.ask(&text);
        ExitCode::from(2)
    } else {
        // The reader of the output is gone.
        let _ = console.print(&text);
        ExitCode::SUCCESS
    }
}

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
    pub(crate) color: ColorChoice,
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
    /// Bring, serve and remove models that run on this machine
    Model(ModelCommandArgs),
    /// Run one snippet and end with its outcome
    #[command(alias = "run")]
    Exec(ExecArgs),
    /// Work in a session at the terminal
    Repl(ReplArgs),
    /// Hold sessions for a program: JSON lines on standard input and output
    Pipe(PipeArgs),
    /// List, show, restore, export and remove the journals of sessions
    Sessions(SessionsArgs),
    /// Show what ended sessions left on disk, and remove what is old
    Clean(CleanArgs),
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
    /// Show every setting, and where its value comes from
    Config(Box<ShowConfigArgs>),
    /// Show where the time of a run went
    Trace(TraceArgs),
    /// The kernel for Jupyter notebooks: install, list and remove it
    Jupyter(JupyterArgs),
    /// Serve the tools to MCP clients, each with a session of its own
    Mcp(Box<McpArgs>),
    /// Serve sessions and the agent over HTTP, to programs and browsers
    Serve(Box<ServeArgs>),
    /// List, drain and cordon the servers of a cluster
    Nodes(NodesArgs),
    /// Measure the promises on this machine
    Bench(BenchArgs),
    /// Print the completions for a shell
    Completions(CompletionsArgs),
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man(ManArgs),
}

const EXAMPLES: &str = "\
Examples:
  cellblock demo                     a tour
  cellblock exec -c 'print(2**100)'  one snippet
  cellblock repl                     a session of your own
  cellblock help exec                all about a command";

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// bash, zsh, fish, elvish or powershell
    #[arg(value_name = "SHELL", hide_possible_values = true)]
    shell: Shell,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  cellblock completions bash > ~/.local/share/bash-completion/completions/cellblock
  cellblock completions zsh > ~/.zfunc/_cellblock
  cellblock completions fish > ~/.config/fish/completions/cellblock.fish";

fn print_completions(args: &CompletionsArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "cellblock", &mut script);
    console.print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The directory, such as /usr/local/share/man/man1
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes one page for the program and one for each command.
fn write_man_pages(args: &ManArgs) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&args.directory)?;
    clap_mangen::generate_to(Cli::command(), &args.directory)?;
    Ok(ExitCode::SUCCESS)
}
