//! Backup and restore of a data directory as one tar archive.

use crate::error::ServerError;
use crate::store::{STORE_FILE, Store};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path};

/// The directories of a data directory that a backup has, beside the store.
const DIRECTORIES: &[&str] = &["journals", "runs", "displays"];

/// Writes everything in a data directory to an archive. A server may run on it meanwhile: the store is copied as it is at one moment,
/// and the files beside it are only added to. An archive that is there already is refused.
pub fn backup(data: &Path, archive: &Path) -> Result<(), ServerError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ServerError::Directory { path, source }
    };
    // In the data directory, which is closed to others: beside the archive they could guess its name.
    let place = tempfile::tempdir_in(data).map_err(failed(data))?;
    let copy = place.path().join(STORE_FILE);
    Store::copy_to(data, &copy)?;
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(archive)
        .and_then(|file| write_archive(data, &copy, file))
        .map_err(failed(archive))
}

fn write_archive(data: &Path, store: &Path, file: File) -> io::Result<()> {
    let mut archive = tar::Builder::new(file);
    archive.follow_symlinks(false);
    archive.append_path_with_name(store, STORE_FILE)?;
    for name in DIRECTORIES {
        let directory = data.join(name);
        if directory.is_dir() {
            archive.append_dir_all(name, &directory)?;
        }
    }
    archive.into_inner()?.sync_all()
}

/// Fills a data directory from an archive. A directory that holds a store already is refused.
pub fn restore(archive: &Path, data: &Path) -> Result<(), ServerError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ServerError::Directory { path, source }
    };
    if data.join(STORE_FILE).exists() {
        return Err(ServerError::Options(format!(
            "{} holds a store already; restore into an empty directory",
            data.display()
        )));
    }
    let file = File::open(archive).map_err(failed(archive))?;
    crate::data_directory::claim(data)?;
    let mut archive = tar::Archive::new(file);
    archive.set_preserve_permissions(true);
    let entries = archive.entries().map_err(failed(data))?;
    for entry in entries {
        let mut entry = entry.map_err(failed(data))?;
        let path = entry.path().map_err(failed(data))?.into_owned();
        let is_known = path.components().next().is_some_and(|first| {
            first == Component::Normal(STORE_FILE.as_ref())
                || DIRECTORIES
                    .iter()
                    .any(|name| first == Component::Normal(name.as_ref()))
        });
        let kind = entry.header().entry_type();
        if !is_known || !(kind.is_file() || kind.is_dir()) {
            return Err(ServerError::Options(format!(
                "the archive has {}, which is no part of a backup",
                path.display()
            )));
        }
        // Paths with `..` are left out by the archive itself.
        entry.unpack_in(data).map_err(failed(data))?;
    }
    Ok(())
}
