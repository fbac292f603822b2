//! From the command line to a command, and from its outcome to an exit status.

use crate::args::{Cli, Command};
use crate::terminal::{ColorWish, Console};
use crate::{commands, failure, surroundings};
use clap::Parser as _;
use std::process::ExitCode;

/// Runs the command that was asked for.
pub(crate) fn main() -> ExitCode {
    if let Err(error) = surroundings::prepare_stack() {
        return failure::report(&error, &Console::new(ColorWish::Auto));
    }
    let Cli { color, command } = match Cli::try_parse() {
        Ok(parsed) => parsed,
        Err(error) => return say(&error),
    };
    let console = Console::new(color);
    if let Err(error) = surroundings::prepare() {
        return failure::report(&error, &console);
    }
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

/// What is wrong with the command line, with the status 2; or what `--help` and `--version` ask for, with 0. A name of a file may be part
/// of it, so it goes the way of everything that is printed.
fn say(error: &clap::Error) -> ExitCode {
    let console = Console::new(ColorWish::Never);
    let text = error.render().to_string();
    if error.use_stderr() {
        console.ask(&text);
        ExitCode::from(2)
    } else {
        // Nobody reads it any more.
        let _ = console.print(&text);
        ExitCode::SUCCESS
    }
}
