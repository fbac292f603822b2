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
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blobs of one machine.
pub(super) enum LocalBlobs {
    Memory(Mutex<HashMap<Digest, Bytes>>),
    Files { directory: PathBuf },
}

impl LocalBlobs {
    pub(super) fn in_memory() -> LocalBlobs {
        LocalBlobs::Memory(Mutex::default())
    }

    pub(super) fn open(directory: &Path) -> Result<LocalBlobs, EngineError> {
        fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
        Ok(LocalBlobs::Files {
            directory: directory.to_owned(),
        })
    }
}

/// Writes a file under its final name only when it is whole and on the disk.
fn write(directory: &Path, digest: &Digest, bytes: &[u8]) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let path = directory.join(digest.as_str());
    if path.exists() {
        return Ok(());
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
                    lock(blobs).insert(digest.clone(), bytes);
                }
                LocalBlobs::Files { directory } => {
                    let (place, name) = (directory.clone(), digest.clone());
                    let written = on_a_thread(move || write(&place, &name, &bytes)).await?;
                    written.map_err(|error| failed(directory, &error))?;
                }
            }
            Ok(digest)
        })
    }

    fn get<'a>(&'a self, digest: &'a Digest) -> BoxFuture<'a, Result<Option<Bytes>, EngineError>> {
        Box::pin(async move {
            let path = match self {
                LocalBlobs::Memory(blobs) => return Ok(lock(blobs).get(digest).cloned()),
                LocalBlobs::Files { directory } => directory.join(digest.as_str()),
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
}
