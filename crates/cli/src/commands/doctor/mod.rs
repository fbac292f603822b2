//! `cellblock doctor`: what this machine can enforce, wall by wall, and what is missing.

mod print;
mod report;

use crate::args::PythonArgs;
use crate::process;
use crate::terminal::Console;
use clap::Args;
use report::Report;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    python: PythonArgs,
}

const EXAMPLES: &str = "\
It ends with 0 when sessions can run here, walled in at least by Landlock, and with 1 when they cannot.

Examples:
  cellblock doctor
  cellblock doctor --json | jq .rung";

/// Examines the machine and tells.
pub(crate) fn run(args: &DoctorArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = process::runtime_on_this_thread()?;
    let report = runtime.block_on(Report::make(&args.python));
    if args.json {
        console.print_json(&report.to_json())?;
    } else {
        print::print(&report, console)?;
    }
    Ok(if report.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
