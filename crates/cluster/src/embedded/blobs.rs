//! Blobs as files that are named by their digest.

use super::log::failed;
use crate::engine::{Blobs, Digest, EngineError, check_blob_digest, check_blob_length};
use crate::lock::lock;
use crate::runtime::BoxFuture;
use bytes::Bytes;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// Blobs of one machine.
pub(super) enum LocalBlobs {
    Memory(Mutex<HashMap<Digest, (Bytes, SystemTime)>>),
    Files {
        directory: PathBuf,
        /// Held while a file is made, touched or removed.
        changes: Arc<Mutex<()>>,
    },
}

impl LocalBlobs {
    pub(super) fn in_memory() -> LocalBlobs {
        LocalBlobs::Memory(Mutex::default())
    }

    pub(super) fn open(directory: &Path) -> Result<LocalBlobs, EngineError> {
        fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
        Ok(LocalBlobs::Files {
            directory: directory.to_owned(),
            changes: Arc::default(),
        })
    }
}

/// Writes a file under its final name only when it is whole and on the disk.
fn write(directory: &Path, digest: &Digest, bytes: &[u8]) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let path = directory.join(digest.as_str());
    if let Ok(file) = File::open(&path) {
        return file.set_modified(SystemTime::now());
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let unfinished = directory.join(format!("{}-{number}.unfinished", std::process::id()));
    let mut file = File::create(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&unfinished, &path)?;
    File::open(directory)?.sync_all()
}

async fn on_a_thread<T: Send + 'static>(
    act: impl FnOnce() -> T + Send + 'static,
) -> Result<T, EngineError> {
    let done = tokio::task::spawn_blocking(act).await;
    done.map_err(|error| EngineError(error.to_string()))
}

impl Blobs for LocalBlobs {
    fn put(&self, bytes: Bytes) -> BoxFuture<'_, Result<Digest, EngineError>> {
        Box::pin(async move {
            check_blob_length(&bytes)?;
            let digest = Digest::of(&bytes);
            match self {
                LocalBlobs::Memory(blobs) => {
                    lock(blobs).insert(digest.clone(), (bytes, SystemTime::now()));
                }
                LocalBlobs::Files { directory, changes } => {
                    let (place, name) = (directory.clone(), digest.clone());
                    let changes = Arc::clone(changes);
                    let write = move || {
                        let _change = lock(&changes);
                        write(&place, &name, &bytes)
                    };
                    let written = on_a_thread(write).await?;
                    written.map_err(|error| failed(directory, &error))?;
                }
            }
            Ok(digest)
        })
    }

    fn get<'a>(&'a self, digest: &'a Digest) -> BoxFuture<'a, Result<Option<Bytes>, EngineError>> {
        Box::pin(async move {
            let path = match self {
                LocalBlobs::Memory(blobs) => {
                    let found = lock(blobs).get(digest).map(|(bytes, _)| bytes.clone());
                    return Ok(found);
                }
                LocalBlobs::Files { directory, .. } => directory.join(digest.as_str()),
            };
            let opened = path.clone();
            match on_a_thread(move || fs::read(opened)).await? {
                Ok(bytes) => {
                    check_blob_digest(&bytes, digest)?;
                    Ok(Some(bytes.into()))
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(failed(&path, &error)),
            }
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Digest>, EngineError>> {
        Box::pin(async move {
            let directory = match self {
                LocalBlobs::Memory(blobs) => return Ok(lock(blobs).keys().cloned().collect()),
                LocalBlobs::Files { directory, .. } => directory,
            };
            let entries = fs::read_dir(directory).map_err(|error| failed(directory, &error))?;
            let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
            let names = entries.flatten().filter_map(name);
            Ok(names
                .filter_map(|name| Digest::try_from(name).ok())
                .collect())
        })
    }

    fn remove<'a>(
        &'a self,
        digest: &'a Digest,
        unused: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        Box::pin(async move {
            let is_old = move |put: SystemTime| put.elapsed().is_ok_and(|age| age >= unused);
            let (directory, changes) = match self {
                LocalBlobs::Memory(blobs) => {
                    let mut blobs = lock(blobs);
                    if blobs.get(digest).is_some_and(|(_, put)| is_old(*put)) {
                        blobs.remove(digest);
                    }
                    return Ok(!blobs.contains_key(digest));
                }
                LocalBlobs::Files { directory, changes } => (directory, Arc::clone(changes)),
            };
            let path = directory.join(digest.as_str());
            let remove = move || {
                let _change = lock(&changes);
                match path.metadata().and_then(|metadata| metadata.modified()) {
                    Ok(put) if is_old(put) => fs::remove_file(&path).map(|()| true),
                    Ok(_) => Ok(false),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
                    Err(error) => Err(error),
                }
            };
            let removed = on_a_thread(remove).await?;
            removed.map_err(|error| failed(directory, &error))
        })
    }
}
