//! From the command line to a command, and from its outcome to an exit status.

use crate::args::{Cli, Command};
use crate::terminal::Console;
use crate::{commands, failure};
use clap::Parser as _;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::process::ExitCode;

/// Runs the command that was asked for.
pub(crate) fn main() -> ExitCode {
    // On a wrong command line clap says so and ends with 2; for `--help` and `--version` with 0.
    let Cli { color, command } = Cli::parse();
    let console = Console::new(color);
    allow_many_files();
    let outcome = match command {
        Command::Ask(args) => commands::ask::run(&args, &console),
        Command::Chat(args) => commands::chat::run(&args, &console),
        Command::Eval(args) => commands::eval::run(*args, &console),
        Command::Runs(args) => commands::runs::run(args, &console),
        Command::Exec(args) => commands::exec::run(args, &console),
        Command::Repl(args) => commands::repl::run(args, console.clone()),
        Command::Pipe(args) => commands::pipe::run(args, &console),
        Command::Sessions(args) => commands::sessions::run(args, &console),
        Command::Doctor(args) => commands::doctor::run(&args, &console),
        Command::Demo(args) => commands::demo::run(args, console.clone()),
        Command::Setup(args) => commands::setup::run(&args, &console),
        Command::Env(args) => commands::env::run(args, &console),
        Command::Tools(args) => commands::tools::run(args, &console),
        Command::Config(args) => commands::config::run(&args, &console),
        Command::Trace(args) => commands::trace::run(&args, &console),
        Command::Mcp(args) => commands::mcp::run(*args, &console),
        Command::Bench(args) => commands::bench::run(args, &console),
        Command::Completions(args) => commands::completions::run(&args, &console),
    };
    outcome.unwrap_or_else(|error| failure::report(&error, &console))
}

/// Each session takes about a dozen descriptors of ours, and the usual limit is meant for programs that wait with `select`.
fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where it is refused, fewer sessions fit; the error then says so.
    let _ = setrlimit(Resource::Nofile, limit);
}
