//! What a question is made of: standard input, files of JSON, templates and their arguments.

use crate::failure::Usage;
use anyhow::Context as _;
use cellblock::agent::{GivenFile, OpenExecutor, Outcome, Template};
use cellblock::{OutputDirectory, UntrustedDirectories};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

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

pub(super) fn read_json(path: &Path) -> anyhow::Result<Value> {
    let text = read_text("--schema", path)?;
    serde_json::from_str(&text).map_err(|error| {
        Usage::plain(format!(
            "--schema {}: it is not JSON: {error}",
            path.display()
        ))
    })
}

pub(super) fn read_template(path: &Path) -> anyhow::Result<Template> {
    let text = read_text("--template", path)?;
    Template::from_markdown(&text)
        .map_err(|error| Usage::plain(format!("--template {}: {error}", path.display())))
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

/// Reads the files that go into the workspace, each under its own name. A link that code left in a workspace does not lead out of it: what
/// it leads to would be given to the next code.
pub(super) fn read_files(
    paths: &[PathBuf],
    untrusted: &UntrustedDirectories,
) -> anyhow::Result<Vec<GivenFile>> {
    let mut files: Vec<GivenFile> = Vec::new();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| {
            Usage::plain(format!(
                "--file {}: this is not the name of a file",
                path.display()
            ))
        })?;
        if files.iter().any(|file| file.path == name) {
            return Err(Usage::plain(format!(
                "--file {}: there is another file called {name}",
                path.display()
            )));
        }
        let contents = untrusted
            .read(path)
            .map_err(|error| Usage::plain(format!("--file {}: {error}", path.display())))?;
        files.push(GivenFile {
            path: name.to_owned(),
            contents: Arc::new(contents),
        });
    }
    Ok(files)
}

/// Copies what the code wrote into a directory; how many files that are.
pub(super) async fn take_out(
    outcome: &Outcome,
    room: &dyn OpenExecutor,
    directory: &OutputDirectory,
) -> anyhow::Result<usize> {
    let results = outcome.cells().filter_map(|done| done.result.as_ref());
    let written: BTreeSet<String> = results
        .flat_map(|result| result.files.created.iter().chain(&result.files.changed))
        .map(|file| file.path.clone())
        .collect();
    let mut count = 0;
    for file in outcome
        .files
        .iter()
        .filter(|file| written.contains(&file.path))
    {
        let relative = Path::new(&file.path);
        // The name comes from code of a model.
        if !relative
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
        {
            continue;
        }
        let mut contents = room
            .open_file(&file.path)
            .await
            .map_err(|error| anyhow::Error::msg(error.to_string()))?;
        // Piece by piece: code of a model may have made it as large as it liked.
        directory
            .write(relative, &mut contents)
            .with_context(|| format!("cannot write {} there", relative.display()))?;
        count += 1;
    }
    Ok(count)
}
