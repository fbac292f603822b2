//! `cellblock env create`.

use super::environments;
use crate::cell_run::{CellStop, Signals};
use crate::commands::setup::find_interpreter;
use crate::failure::Usage;
use crate::process;
use crate::terminal::{Console, EnvironmentBar, Style, milliseconds, plural, size};
use cellblock::env::{Cancel, Environments, Error, Interpreter, Requirements};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CreateArgs {
    /// Its name: letters, digits, - and _
    name: String,
    /// The packages, such as httpx or 'polars>=1.0'
    packages: Vec<String>,
    /// Take the packages from a requirements.txt, a pyproject.toml, or the header of a script
    #[arg(short, long, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Print the result as one JSON object, and nothing else
    #[arg(long)]
    json: bool,
    /// Say nothing unless it fails
    #[arg(short, long)]
    quiet: bool,
    /// Use this interpreter [default: the first good one on PATH]
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
}

const EXAMPLES: &str = "\
When it is there already, this only gives it the name. Packages come as wheels; what has only a source is built in a
sealed session that sees nothing of yours and reaches the package index alone.

Examples:
  cellblock env create web httpx 'pydantic>=2'
  cellblock env create project --file pyproject.toml
  cellblock env create report --file requirements.txt openpyxl --python python3.12";

pub(crate) fn run(args: CreateArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = process::runtime_on_this_thread()?;
    let outcome = runtime.block_on(create(args, console));
    runtime.shutdown_background();
    outcome
}

async fn create(args: CreateArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let begun = Instant::now();
    let mut signals = Signals::new()?;
    let environments = environments()?;
    let mut wanted = Requirements::parse(&args.packages)?;
    for file in &args.file {
        wanted = wanted.merge(Requirements::from_file(file)?);
    }
    if wanted.packages.is_empty() && args.file.is_empty() {
        return Err(Usage::hinted(
            "no packages are named",
            "write them behind the name, or name a file with --file",
        ));
    }
    let interpreter = find_interpreter(args.python.as_deref())?;
    let bar = Arc::new(if args.quiet || args.json {
        EnvironmentBar::silent(console)
    } else {
        EnvironmentBar::new(console)
    });
    // Refused before anything is made, if it cannot be a name.
    if let Err(error @ Error::BadName { .. }) = environments.requirements_named(&args.name) {
        return Err(error.into());
    }
    let cancel = Cancel::new();
    let making = make(
        &environments,
        interpreter,
        wanted.clone(),
        cancel.clone(),
        &bar,
    );
    let made = tokio::task::spawn_blocking(making);
    tokio::pin!(made);
    let outcome = signals.or(&mut made).await;
    bar.clear();
    match outcome {
        Ok(made) => made??,
        Err(stopped) => {
            // Waits until the half-made environment is gone.
            cancel.cancel();
            let _ = made.await;
            return Ok(match stopped {
                CellStop::Signal(signal) => ExitCode::from(128 + signal as u8),
                _ => ExitCode::FAILURE,
            });
        }
    };
    environments.save_name(&args.name, &wanted)?;
    let stored = environments.find(&args.name)?;
    if args.json {
        console.print_json(&stored)?;
    } else if !args.quiet {
        console.say(&format!(
            "{} {} with {}, {} on disk ({})",
            console.on_err(Style::Good, "ready:"),
            args.name,
            plural(stored.packages.len() as u64, "package"),
            size(stored.bytes),
            milliseconds(begun.elapsed())
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn make(
    environments: &Environments,
    interpreter: Interpreter,
    wanted: Requirements,
    cancel: Cancel,
    bar: &Arc<EnvironmentBar>,
) -> impl FnOnce() -> Result<(), Error> + Send + 'static {
    let (environments, bar) = (environments.clone(), Arc::clone(bar));
    move || {
        let report = &mut |progress| bar.report(&progress);
        environments.make(&interpreter, &wanted, &cancel, report)?;
        Ok(())
    }
}
