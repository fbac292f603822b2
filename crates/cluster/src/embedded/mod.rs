//! The engine of one machine: maps and channels in this process, and files for what outlives it. No server, no socket.
//!
//! | part | kept in memory | kept in files |
//! | --- | --- | --- |
//! | directories of sessions and runs | all | a log of changes each, synced before the call returns |
//! | journals | the place of the last record | `journals/SESSION.jsonl`, synced before the call returns |
//! | blobs | none | `blobs/DIGEST` |
//! | members, requests, events | all | none: they end with the process |

mod blobs;
mod directory;
mod events;
mod journals;
mod log;
mod members;
mod router;

use crate::engine::{Engine, EngineError};
use crate::runtime::Runtime;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An engine that keeps everything in memory and ends with the process. `lease` is how long a node lives without a heartbeat.
pub fn in_memory(runtime: &Arc<dyn Runtime>, lease: Duration) -> Engine {
    Engine {
        directory: Arc::new(directory::LocalDirectory::in_memory()),
        members: Arc::new(members::LocalMembers::new(Arc::clone(runtime), lease)),
        journals: Arc::new(journals::LocalJournals::in_memory()),
        router: Arc::new(router::LocalRouter::new(Arc::clone(runtime))),
        runs: Arc::new(directory::LocalDirectory::in_memory()),
        events: Arc::new(events::LocalEvents::default()),
        blobs: Arc::new(blobs::LocalBlobs::in_memory()),
    }
}

/// An engine whose sessions, runs and blobs are in files below `directory`. One process at a time can open it.
pub fn open(
    directory: &Path,
    runtime: &Arc<dyn Runtime>,
    lease: Duration,
) -> Result<Engine, EngineError> {
    Ok(Engine {
        // The first file that is opened: its lock keeps a second process out.
        directory: Arc::new(directory::LocalDirectory::open(
            &directory.join("directory.jsonl"),
        )?),
        journals: Arc::new(journals::LocalJournals::open(&directory.join("journals"))),
        runs: Arc::new(directory::LocalDirectory::open(
            &directory.join("runs.jsonl"),
        )?),
        blobs: Arc::new(blobs::LocalBlobs::open(&directory.join("blobs"))?),
        ..in_memory(runtime, lease)
    })
}
