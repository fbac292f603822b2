//! `cellblock doctor`: what this machine can enforce, wall by wall, and what is missing.

mod apparmor;
#[cfg(feature = "cluster")]
mod cluster;
mod fix;
mod print;
mod report;

#[cfg(feature = "cluster")]
use crate::args::EngineArgs;
use crate::args::PythonArgs;
use crate::process;
use crate::terminal::Console;
use clap::Args;
use fix::Consent;
use report::DoctorReport;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
    /// Change what stands in the way: on Ubuntu, install a profile of AppArmor for this program (asks first)
    #[arg(long, conflicts_with = "json")]
    fix: bool,
    /// Do not ask before a change
    #[arg(short, long, requires = "fix")]
    yes: bool,
    #[command(flatten)]
    python: PythonArgs,
    #[cfg(feature = "cluster")]
    #[command(flatten, next_help_heading = "Cluster")]
    engine: EngineArgs,
}

const EXAMPLES: &str = "\
It ends with 0 when sessions can run here, walled in at least by Landlock, and with 1 when they cannot.

Examples:
  cellblock doctor
  cellblock doctor --json | jq .rung
  cellblock doctor --cluster nats://a,nats://b,nats://c
  cellblock doctor --fix             allow user namespaces on Ubuntu, for this program alone";

/// Examines the machine and tells.
pub(crate) fn run(args: &DoctorArgs, console: &Console) -> anyhow::Result<ExitCode> {
    #[cfg(feature = "cluster")]
    if args.engine.is_chosen() {
        return cluster::run(&args.engine, args.json, console);
    }
    if args.fix {
        let consent = if args.yes {
            Consent::Given
        } else {
            Consent::Ask
        };
        fix::fix(consent, console)?;
    }
    let runtime = process::runtime_on_this_thread()?;
    let report = runtime.block_on(DoctorReport::make(&args.python));
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
