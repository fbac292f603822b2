//! `cellblock config`: every setting, and where its value comes from.

use crate::agent_run::AgentRunArgs;
use crate::config::ResolvedSetting;
use crate::terminal::{Console, Style};
use clap::Args;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ShowConfigArgs {
    /// Print a JSON list instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    agent_run_args: AgentRunArgs,
}

const EXAMPLES: &str = "\
A flag comes before a variable, a variable before the file, the file before the default. Every setting of a section has a variable: \
CELLBLOCK_AGENT_MAX_STEPS for `max_steps` in [agent]. docs/configuration.md has all of them. Flags given here count as they would for ask.

Examples:
  cellblock config
  cellblock config --max-steps 5 --json
  cellblock config --config other.toml";

/// Prints every setting.
pub(crate) fn run(args: &ShowConfigArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let (_, entries) = args.agent_run_args.resolve()?;
    if args.json {
        console.print_json(&entries)?;
        return Ok(ExitCode::SUCCESS);
    }
    let length = |text: &str| text.chars().count();
    let widest =
        |of: fn(&ResolvedSetting) -> &str| entries.iter().map(|entry| length(of(entry))).max();
    let (key, value) = (widest(|entry| &entry.key), widest(shown));
    for entry in &entries {
        let line = format!(
            "{:<key$}  {:<value$}  ",
            entry.key,
            shown(entry),
            key = key.unwrap_or(0),
            value = value.unwrap_or(0).min(40),
        );
        let from = console.on_out(Style::Dim, &entry.from.to_string());
        console.print_guest(&line)?;
        console.print_line(&from)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(entry: &ResolvedSetting) -> &str {
    entry.value.as_deref().unwrap_or("-")
}
