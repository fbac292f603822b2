//! `cellblock eval table`: many results as one table.

use crate::failure::Usage;
use crate::terminal::Console;
use cellblock::eval::{EvalReport, replace_score_table, score_table};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// Results that `cellblock eval --json` wrote
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Put the table into this page, between its lines `<!-- scores: begin … -->` and `<!-- scores: end -->`
    #[arg(long, value_name = "PAGE")]
    into: Option<PathBuf>,
}

pub(super) fn run(args: &TableArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let reports = args.files.iter().map(EvalReport::read);
    let reports = reports.collect::<Result<Vec<EvalReport>, _>>();
    let reports = reports.map_err(|error| Usage::plain(error.to_string()))?;
    let table = score_table(&reports);
    let Some(page) = &args.into else {
        console.print(&table)?;
        return Ok(ExitCode::SUCCESS);
    };
    let wrong = |problem: String| Usage::plain(format!("--into {}: {problem}", page.display()));
    let text = std::fs::read_to_string(page).map_err(|error| wrong(error.to_string()))?;
    let text = replace_score_table(&text, &table).map_err(|error| wrong(error.to_string()))?;
    std::fs::write(page, text).map_err(|error| wrong(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}
