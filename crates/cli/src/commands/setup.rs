//! `cellblock setup`: the default environment, made ahead of its first use.

use crate::commands::live::{Signals, Stopped};
use crate::commands::making::{Making, find_interpreter};
use crate::commands::runtime;
use crate::terminal::{Console, EnvironmentBar, Style, milliseconds, plural, size};
use anyhow::Context as _;
use cellblock::env::Environment;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SetupArgs {
    /// Say nothing unless it fails
    #[arg(short, long)]
    quiet: bool,
    /// Use this interpreter [default: the first good one on PATH]
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
}

const EXAMPLES: &str = "\
It is made once, below the cache directory that `cellblock doctor` names, and shared by all sessions. When it is there
already, this does nothing.

Examples:
  cellblock setup
  cellblock setup --quiet --python python3.12";

/// Makes the environment, or finds that it is there.
pub(crate) fn run(args: &SetupArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = runtime::on_this_thread()?;
    runtime.block_on(set_up(args, console))
}

async fn set_up(args: &SetupArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let begun = Instant::now();
    let mut signals = Signals::new()?;
    let interpreter = find_interpreter(args.python.as_deref())?;
    if !args.quiet {
        let line = format!(
            "Python {} at {}",
            interpreter.version,
            interpreter.executable.display()
        );
        console.say(&line);
    }
    let bar = Arc::new(if args.quiet {
        EnvironmentBar::silent(console)
    } else {
        EnvironmentBar::new(console)
    });
    let mut making = Making::start(interpreter, Arc::clone(&bar))?;
    let outcome = signals.or(making.finish()).await;
    bar.clear();
    let environment = match outcome {
        Ok(made) => made.context("the default environment could not be made")?,
        Err(Stopped::Signal(signal)) => {
            // Waits until the half-made environment is gone.
            making.stop().await;
            return Ok(ExitCode::from(128 + signal as u8));
        }
        Err(_) => return Ok(ExitCode::FAILURE),
    };
    if !args.quiet {
        console.say(&described(&environment, begun, console));
    }
    Ok(ExitCode::SUCCESS)
}

fn described(environment: &Environment, begun: Instant, console: &Console) -> String {
    format!(
        "{} {} in {}, {} on disk ({})",
        console.on_err(Style::Good, "ready:"),
        plural(environment.packages.len() as u64, "package"),
        environment.prefix.display(),
        size(environment.bytes),
        milliseconds(begun.elapsed().as_secs_f64() * 1e3)
    )
}
