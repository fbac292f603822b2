//! `cellblock trace`: where the time of a run went.

use crate::failure::Usage;
use crate::terminal::Console;
use cellblock::agent::{RunStore, RunStoreError};
use cellblock::env::Dirs;
use cellblock_trace::{Trace, TraceReport, trace_path};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TraceArgs {
    /// The id of a run, or its beginning; `last` is the newest
    run: String,
    /// How to print it
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Read this trace [default: trace.jsonl in the state directory]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// The timeline and the numbers
    #[default]
    Text,
    /// The numbers, for programs
    Json,
    /// Stacks with microseconds, for flame graphs
    Folded,
    /// The spans as OTLP in JSON, for a collector
    Otlp,
}

const EXAMPLES: &str = "\
Shown are the timeline of the run; the shares of model, code and the rest; for each kind of span how many there were, how \
long they took and how many failed; calls that were made more than once; calls of the model over 10 s and cells over 1 s; \
and the versions of the plan.

Examples:
  cellblock trace last
  cellblock trace k3f9 --format json
  cellblock trace last --format folded > run.folded";

pub(crate) fn run(args: &TraceArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let state = Dirs::from_process()?.state;
    let run = match RunStore::new(state.join("runs")).find(&args.run) {
        Ok(run) => run.id,
        // Its record may have been removed, and its trace be there still.
        Err(RunStoreError::NotFound { .. }) if args.run != "last" => args.run.clone(),
        Err(error) => return Err(Usage::plain(error.to_string())),
    };
    let file = args.file.clone().unwrap_or_else(|| trace_path(&state));
    let trace = Trace::read(&file, &run)?;
    if trace.records().is_empty() {
        return Err(Usage::hinted(
            format!("{} has nothing of the run `{run}`", file.display()),
            "a trace is kept until 60 MB of newer ones have been written",
        ));
    }
    match args.format {
        Format::Text => {
            console.print(&console.safe_on_out(&trace.timeline()))?;
            console.print_line("")?;
            console.print(&console.safe_on_out(&TraceReport::new(&trace).to_text()))?;
        }
        Format::Json => console.print_json(&TraceReport::new(&trace))?,
        Format::Otlp => console.print_json(&trace.otlp())?,
        Format::Folded => console.print(&console.safe_on_out(&trace.folded()))?,
    }
    Ok(ExitCode::SUCCESS)
}
