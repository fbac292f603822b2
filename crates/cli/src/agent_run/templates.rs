//! Templates from files.

use crate::failure::Usage;
use cellblock::agent::Template;
use std::path::{Path, PathBuf};

/// Reads a template that a flag names.
pub(crate) fn read_template(flag: &str, path: &Path) -> anyhow::Result<Template> {
    let bad = |problem: String| Usage::plain(format!("{flag} {}: {problem}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
    Template::from_markdown(&text).map_err(|error| bad(error.to_string()))
}

/// The templates of a folder, in the order of their file names.
pub(super) fn templates_in(directory: &Path) -> anyhow::Result<Vec<Template>> {
    const FLAG: &str = "--templates-dir";
    let bad = |problem: String| Usage::plain(format!("{FLAG} {}: {problem}", directory.display()));
    let entries = std::fs::read_dir(directory).map_err(|error| bad(error.to_string()))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect();
    if paths.is_empty() {
        return Err(bad("there is no template (.md) in it".to_owned()));
    }
    paths.sort();
    paths.iter().map(|path| read_template(FLAG, path)).collect()
}
