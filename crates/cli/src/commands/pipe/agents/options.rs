//! The options of a run that a client asks for.

use crate::agent_run::AgentRunArgs;
use crate::failure::Usage;
use clap::Parser;
use serde_json::{Map, Value};

/// The options of a run: the long options of `cellblock ask`.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub(super) struct RunOptions {
    #[command(flatten)]
    pub(super) args: AgentRunArgs,
    #[arg(long)]
    pub(super) verify: bool,
}

impl RunOptions {
    /// Reads them from the fields of a request.
    pub(super) fn read(options: &Map<String, Value>) -> anyhow::Result<RunOptions> {
        let mut words = Vec::new();
        for (name, value) in options {
            let is_name = |c: char| c.is_ascii_lowercase() || matches!(c, '_' | '-');
            if name.is_empty() || name.starts_with('-') || !name.chars().all(is_name) {
                return Err(Usage::plain(format!("there is no option {name:?}")));
            }
            let flag = format!("--{}", name.replace('_', "-"));
            let values = match value {
                Value::Array(values) => values.iter().collect(),
                one => vec![one],
            };
            for value in values {
                match value {
                    Value::Null | Value::Bool(false) => {}
                    Value::Bool(true) => words.push(flag.clone()),
                    Value::String(text) => words.push(format!("{flag}={text}")),
                    Value::Number(number) => words.push(format!("{flag}={number}")),
                    other => {
                        let problem = format!("{name}: a text or a number is needed, got {other}");
                        return Err(Usage::plain(problem));
                    }
                }
            }
        }
        RunOptions::try_parse_from(words).map_err(|error| {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            Usage::plain(first.trim_start_matches("error: ").to_owned())
        })
    }
}
