//! `cellblock demo`: a tour on real cells. Nothing is faked: every step checks that it did what it claims.

mod question;
mod stage;
mod steps;
mod tour;

use crate::args::PythonArgs;
use crate::commands::live::{Signals, Stopped};
use crate::commands::runtime;
use crate::terminal::{Console, EnvironmentBar};
use clap::Args;
use std::process::ExitCode;
use std::sync::Arc;
use tour::Tour;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    python: PythonArgs,
}

const EXAMPLES: &str = "\
The first time, the default environment is made while the tour begins on the standard library.
It ends with 0 when every step did what it claims, else with 1.

Examples:
  cellblock demo
  cellblock demo --stdlib";

/// Gives the tour.
pub(crate) fn run(args: DemoArgs, console: Console) -> anyhow::Result<ExitCode> {
    let runtime = runtime::on_threads(1)?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        let bar = Arc::new(EnvironmentBar::new(&console));
        let mut tour = Tour::new(args.python, console, Arc::clone(&bar))?;
        let outcome = signals.or(tour.give()).await;
        bar.clear();
        tour.end().await;
        match outcome {
            Ok(outcome) => outcome,
            Err(Stopped::Signal(signal)) => Ok(ExitCode::from(128 + signal as u8)),
            Err(_) => Ok(ExitCode::FAILURE),
        }
    })
}
