//! What a question is made of: standard input, files of JSON, templates and their arguments.

use crate::failure::Usage;
use anyhow::Context as _;
use serde_json::{Map, Value};
use std::io::{self, IsTerminal as _, Read as _};
use std::path::Path;

pub(super) fn read_standard_input() -> anyhow::Result<String> {
    if io::stdin().is_terminal() {
        return Err(Usage::hinted(
            "standard input is a terminal",
            "write the question as an argument",
        ));
    }
    let mut text = String::new();
    io::stdin()
        .lock()
        .read_to_string(&mut text)
        .context("cannot read the question from standard input")?;
    Ok(text)
}

fn read_text(flag: &str, path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path)
        .map_err(|error| Usage::plain(format!("{flag} {}: {error}", path.display())))
}

pub(super) fn read_schema(path: &Path) -> anyhow::Result<Value> {
    let text = read_text("--schema", path)?;
    serde_json::from_str(&text).map_err(|error| {
        Usage::plain(format!(
            "--schema {}: it is not JSON: {error}",
            path.display()
        ))
    })
}

pub(super) fn arguments(entries: &[String]) -> anyhow::Result<Map<String, Value>> {
    entries
        .iter()
        .map(|entry| {
            let (name, json) = entry.split_once('=').ok_or_else(|| {
                Usage::hinted(
                    format!("--arg {entry}: a name and a value are needed"),
                    "write --arg 'name=value'",
                )
            })?;
            let value = serde_json::from_str(json).map_err(|error| {
                let quoted = Value::from(json);
                Usage::hinted(
                    format!("--arg {name}: the value is not JSON: {error}"),
                    format!("a text needs quotes: --arg '{name}={quoted}'"),
                )
            })?;
            Ok((name.to_owned(), value))
        })
        .collect()
}
