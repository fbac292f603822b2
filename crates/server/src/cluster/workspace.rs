//! The files of a session's workspace in the cluster: what a cell changed is stored by its hash, and put back where a replay did not make
//! the same file.

use super::journaling::{get_blobs, put_blobs};
use bytes::Bytes;
use cellblock_cluster::engine::{Blobs, Digest};
use cellblock_host::Session;
use cellblock_protocol::FileChanges;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The largest file that is stored, the most bytes of one cell, and the most files.
const MAX_FILE_BYTES: u64 = 32 << 20;
const MAX_CELL_BYTES: u64 = 64 << 20;
const MAX_FILES: usize = 500;

/// What a cell did to the files of its workspace.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Changes {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    stored: BTreeMap<String, Vec<Digest>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    deleted: Vec<String>,
    /// Files that were too large, too many, or could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
}

/// Stores the files that a cell changed. Returns what its record says about them; nothing if it changed none.
pub(super) async fn store(
    blobs: &dyn Blobs,
    session: &Session,
    changes: &FileChanges,
) -> Result<Option<Value>, String> {
    if changes.is_empty() {
        return Ok(None);
    }
    let mut noted = Changes::default();
    let mut bytes = 0;
    for file in changes.created.iter().chain(&changes.changed) {
        let fits = file.bytes <= MAX_FILE_BYTES
            && bytes + file.bytes <= MAX_CELL_BYTES
            && noted.stored.len() < MAX_FILES;
        let contents = match fits {
            true => session.get_file(&file.path).await.ok(),
            false => None,
        };
        // A file may have grown since the cell ended.
        match contents.filter(|contents| contents.len() as u64 <= MAX_FILE_BYTES) {
            Some(contents) => {
                bytes += contents.len() as u64;
                let digests = put_blobs(blobs, Bytes::from(contents)).await?;
                noted.stored.insert(file.path.clone(), digests);
            }
            None => noted.left_out.push(file.path.clone()),
        }
    }
    noted.deleted = changes
        .deleted
        .iter()
        .map(|file| file.path.clone())
        .collect();
    serde_json::to_value(&noted)
        .map(Some)
        .map_err(|error| error.to_string())
}

/// The files of a workspace as the records of its session tell them.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    files: BTreeMap<String, FileState>,
}

#[derive(Debug)]
enum FileState {
    Stored(Vec<Digest>),
    Deleted,
    LeftOut,
}

impl Manifest {
    /// Adds what the record of a cell says.
    pub(super) fn add(&mut self, files: &Value) {
        let Ok(changes) = serde_json::from_value::<Changes>(files.clone()) else {
            return;
        };
        for (path, digests) in changes.stored {
            self.files.insert(path, FileState::Stored(digests));
        }
        for path in changes.deleted {
            self.files.insert(path, FileState::Deleted);
        }
        for path in changes.left_out {
            self.files.insert(path, FileState::LeftOut);
        }
    }

    /// Forgets a file that the host wrote later: the replay writes it too.
    pub(super) fn forget(&mut self, path: &str) {
        self.files.remove(path);
    }

    /// Makes the files of a replayed session what they were. Returns in words what could not be put back.
    pub(super) async fn restore(&self, blobs: &dyn Blobs, session: &Session) -> Vec<String> {
        let mut differences = Vec::new();
        for (path, state) in &self.files {
            let restored = match state {
                FileState::Stored(digests) => restore_file(blobs, session, path, digests).await,
                // A cell that removed it was replayed too.
                FileState::Deleted => Ok(()),
                FileState::LeftOut => match session.get_file_part(path, 0, 1).await {
                    Ok(_) => Ok(()),
                    Err(_) => Err("it was too large to be stored".to_owned()),
                },
            };
            if let Err(problem) = restored {
                differences.push(format!("the file {path} is not there: {problem}"));
            }
        }
        differences
    }
}

async fn restore_file(
    blobs: &dyn Blobs,
    session: &Session,
    path: &str,
    digests: &[Digest],
) -> Result<(), String> {
    let wanted = get_blobs(blobs, digests).await;
    let wanted = wanted.map_err(|error| error.to_string())?;
    match session.get_file(path).await {
        Ok(found) if found == wanted => Ok(()),
        _ => {
            let saved = session.save_file(path, wanted).await;
            saved.map_err(|error| error.to_string())
        }
    }
}
