//! The files of a run: those that a person gives it, and those that its code writes.

use crate::failure::Usage;
use crate::terminal::{Console, Style, plural};
use anyhow::Context as _;
use cellblock::agent::{Conversation, GivenFile, Outcome};
use cellblock::{OutputDirectory, UntrustedDirectories};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The most files that are named one by one.
const MAX_NAMED_FILES: usize = 10;

/// The most files that a directory may bring.
const MAX_GIVEN_FILES: usize = 10_000;

/// The most bytes that all given files may have together: they are held in memory.
const MAX_GIVEN_BYTES: u64 = 1 << 30;

/// The flags for files.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
pub(crate) struct FileArgs {
    /// Put this file, or this directory with all its files, into the workspace
    #[arg(long = "file", value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,
    /// Copy the files that the code writes into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// Reads the files that go into the workspace, each under its own name, those of a directory below the directory's name. A link that code
/// left in a workspace does not lead out of it: what it leads to would be given to the next code.
pub(crate) fn read_files(
    paths: &[PathBuf],
    untrusted: &UntrustedDirectories,
) -> anyhow::Result<Vec<GivenFile>> {
    let mut files = GivenFiles::default();
    for path in paths {
        let name = path.file_name().map(PathBuf::from);
        // A path such as `.` or `..` has no name of its own.
        let name = match name {
            Some(name) => name,
            None => {
                let real = fs::canonicalize(path).map_err(|error| refused(path, error))?;
                real.file_name().map(PathBuf::from).unwrap_or_default()
            }
        };
        files.add(path, &name, untrusted)?;
    }
    Ok(files.all)
}

fn refused(path: &Path, problem: impl std::fmt::Display) -> anyhow::Error {
    Usage::plain(format!("--file {}: {problem}", path.display()))
}

#[derive(Default)]
struct GivenFiles {
    all: Vec<GivenFile>,
    names: BTreeSet<String>,
    bytes: u64,
}

impl GivenFiles {
    fn add(
        &mut self,
        path: &Path,
        name: &Path,
        untrusted: &UntrustedDirectories,
    ) -> anyhow::Result<()> {
        if fs::metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
            return self.add_directory(path, name, untrusted);
        }
        let Some(name) = name.to_str().filter(|name| !name.is_empty()) else {
            return Err(refused(path, "this is not the name of a file"));
        };
        if !self.names.insert(name.to_owned()) {
            return Err(refused(
                path,
                format!("there is another file called {name}"),
            ));
        }
        let contents = untrusted.read(path).map_err(|error| refused(path, error))?;
        self.bytes += contents.len() as u64;
        if self.bytes > MAX_GIVEN_BYTES || self.names.len() > MAX_GIVEN_FILES {
            return Err(Usage::hinted(
                format!(
                    "--file {}: the files are too many or too large",
                    path.display()
                ),
                format!(
                    "at most {MAX_GIVEN_FILES} files and 1 GB are copied; --workspace DIR works in a directory as it is"
                ),
            ));
        }
        self.all.push(GivenFile {
            path: name.to_owned(),
            contents: Arc::new(contents),
        });
        Ok(())
    }

    /// Adds the files of a directory. Links in it are not followed.
    fn add_directory(
        &mut self,
        path: &Path,
        name: &Path,
        untrusted: &UntrustedDirectories,
    ) -> anyhow::Result<()> {
        let entries = fs::read_dir(path).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        let mut entries = entries.map_err(|error| refused(path, error))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let kind = entry.file_type().map_err(|error| refused(path, error))?;
            if kind.is_dir() || kind.is_file() {
                self.add(&entry.path(), &name.join(entry.file_name()), untrusted)?;
            }
        }
        Ok(())
    }
}

/// The directory that files of runs are copied to. It is opened before any code runs, which could put a link in its place.
pub(crate) struct RunOutput {
    path: PathBuf,
    directory: OutputDirectory,
}

impl RunOutput {
    /// Opens the directory of `--out`, if that was given.
    pub(crate) fn open(
        args: &FileArgs,
        untrusted: &UntrustedDirectories,
    ) -> anyhow::Result<Option<RunOutput>> {
        let Some(path) = args.out.as_deref() else {
            return Ok(None);
        };
        let opened = untrusted.output_directory(path);
        let directory =
            opened.map_err(|error| Usage::plain(format!("--out {}: {error}", path.display())))?;
        Ok(Some(RunOutput {
            path: path.to_owned(),
            directory,
        }))
    }

    /// Copies what the code of a run wrote, and says so.
    pub(crate) async fn take(
        &self,
        outcome: &Outcome,
        conversation: &Conversation,
        console: &Console,
    ) -> anyhow::Result<()> {
        let mut count = 0;
        for path in written_files(outcome) {
            let relative = Path::new(&path);
            // The name comes from code of a model.
            let mut parts = relative.components();
            if !parts.all(|part| matches!(part, Component::Normal(_))) {
                continue;
            }
            let opened = conversation.executor().open_file(&path).await;
            let mut contents = opened.map_err(|error| anyhow::Error::msg(error.to_string()))?;
            // Piece by piece: code of a model may have made it as large as it liked.
            self.directory
                .write(relative, &mut contents)
                .with_context(|| format!("cannot write {} there", relative.display()))?;
            count += 1;
        }
        let copied = if count == 1 {
            "was copied"
        } else {
            "were copied"
        };
        let files = plural(count, "file");
        let words = format!("{files} {copied} to {}", self.path.display());
        console.note(&console.on_err(Style::Dim, "note:"), &words);
        Ok(())
    }
}

/// Says where on this machine the files are that the code of a run wrote.
pub(crate) async fn print_file_places(
    outcome: &Outcome,
    conversation: &Conversation,
    console: &Console,
) {
    let written = written_files(outcome);
    let Some(directory) = conversation.executor().workspace_directory().await else {
        return;
    };
    for path in written.iter().take(MAX_NAMED_FILES) {
        let line = format!("file {}", directory.join(path).display());
        console.say(&console.on_err(Style::Dim, &console.name_on_err(&line)));
    }
    if let Some(more @ 1..) = written.len().checked_sub(MAX_NAMED_FILES) {
        let files = plural(more as u64, "more file");
        let line = format!("and {files} in {}", directory.display());
        console.say(&console.on_err(Style::Dim, &line));
    }
}

/// The files that the code of a run wrote and that are still there, by their paths in the workspace.
fn written_files(outcome: &Outcome) -> Vec<String> {
    let results = outcome.cells().filter_map(|done| done.result.as_ref());
    let written: BTreeSet<&str> = results
        .flat_map(|result| result.files.created.iter().chain(&result.files.changed))
        .map(|file| file.path.as_str())
        .collect();
    let there = outcome.files.iter().map(|file| &file.path);
    there
        .filter(|path| written.contains(path.as_str()))
        .cloned()
        .collect()
}
