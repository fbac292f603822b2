//! `cellblock setup`: the default environment, made ahead of its first use.

use crate::cell_run::{CellStop, Signals};
use crate::process;
use crate::terminal::{Console, EnvironmentBar, Style, milliseconds, plural, size};
use anyhow::Context as _;
use cellblock::Packages;
use cellblock::env::{
    self, Cancel, CancelOnDrop, Environment, EnvironmentStatus, Interpreter, Requirements, Search,
};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

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
    let runtime = process::runtime_on_this_thread()?;
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
    let mut build = EnvironmentBuild::start(interpreter, Arc::clone(&bar))?;
    let outcome = signals.or(build.finish()).await;
    bar.clear();
    let environment = match outcome {
        Ok(made) => made.context("the default environment could not be made")?,
        Err(CellStop::Signal(signal)) => {
            // Waits until the half-made environment is gone.
            build.stop().await;
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
        milliseconds(begun.elapsed())
    )
}

/// An environment that is being made. Dropping this stops it and leaves nothing behind.
#[derive(Debug)]
pub(crate) struct EnvironmentBuild {
    task: JoinHandle<Result<Environment, env::Error>>,
    cancel: CancelOnDrop,
}

impl EnvironmentBuild {
    /// Begins on a thread of its own.
    pub(crate) fn start(
        interpreter: Interpreter,
        bar: Arc<EnvironmentBar>,
    ) -> Result<EnvironmentBuild, cellblock::Error> {
        let environments = Packages::from_process()?.environments().clone();
        let cancel = Cancel::new();
        let guard = cancel.on_drop();
        let task = tokio::task::spawn_blocking(move || {
            let wanted = Requirements::default_set();
            environments.make(&interpreter, &wanted, &cancel, &mut |progress| {
                bar.report(&progress);
            })
        });
        Ok(EnvironmentBuild {
            task,
            cancel: guard,
        })
    }

    /// Waits for it.
    pub(crate) async fn finish(&mut self) -> anyhow::Result<Environment> {
        Ok((&mut self.task).await??)
    }

    /// Stops it, and waits until nothing half-made is left.
    pub(crate) async fn stop(self) {
        drop(self.cancel);
        let _ = self.task.await;
    }
}

/// The interpreter that was asked for, or the first good one.
pub(crate) fn find_interpreter(wanted: Option<&Path>) -> Result<Interpreter, env::Error> {
    let search = Search::from_process()?.on_wait(tell_of_slow_python);
    match wanted {
        Some(path) => search.explicit(path).find(),
        None => search.find(),
    }
}

/// Says why nothing happens for a while.
#[expect(
    clippy::print_stderr,
    reason = "a command has no console before it has a Python"
)]
fn tell_of_slow_python(path: &Path, limit: Duration) {
    eprintln!(
        "{} did not answer in time, as on a slow or busy machine; waiting for it, {} s at most",
        path.display(),
        limit.as_secs()
    );
}

/// The default environment, when it is ready.
pub(crate) fn ready_environment(
    interpreter: &Interpreter,
) -> Result<Option<Environment>, env::Error> {
    Ok(match env::default_environment_status(interpreter)? {
        EnvironmentStatus::Ready(environment) => Some(*environment),
        EnvironmentStatus::Missing | EnvironmentStatus::Building => None,
    })
}
