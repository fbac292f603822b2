//! Watched directories: what was made, written to, moved and removed since a client last asked.
//!
//! A watcher compares listings of its directory. That needs nothing of the sandbox, works in every place that a session can list, and
//! costs nothing while no client asks. What is made and removed again between two looks is not seen.

use super::connect::{
    ClientGone, RpcCode, RpcError, StreamSender, failed_stream, keepalive_of, stream_response,
    timeout_of,
};
use super::filesystem::entry_at;
use super::sandbox::{Sandbox, lock};
use crate::auth::random_id;
use axum::http::HeaderMap;
use axum::response::Response;
use cellblock_protocol::{FileKind, FileStat};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The most watchers of one sandbox.
const MAX_WATCHERS: usize = 64;
/// How deep a recursive watcher looks.
const MAX_DEPTH: u32 = 64;
/// The most entries that a watcher compares.
const MAX_ENTRIES: usize = 20_000;
/// How often a stream looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A watched directory and what was in it.
#[derive(Debug)]
pub(super) struct DirectoryWatcher {
    path: String,
    depth: u32,
    entries: EntryInfo,
    seen: Mutex<Listing>,
}

/// Whether events describe the entry that they are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryInfo {
    Included,
    LeftOut,
}

/// Entries by their path below the directory.
type Listing = BTreeMap<String, Seen>;

/// What a watcher compares of an entry.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    kind: FileKind,
    bytes: u64,
    mode: u32,
    modified: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WatchRequest {
    path: String,
    recursive: bool,
    include_entry: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WatcherRequest {
    watcher_id: String,
}

/// Begins to watch a directory, for a client that asks for the events later.
pub(super) async fn create_watcher(
    sandbox: &Sandbox,
    request: WatchRequest,
) -> Result<Value, RpcError> {
    let watcher = Arc::new(DirectoryWatcher::new(sandbox, request).await?);
    let id = random_id("w").map_err(super::error::E2bError::from)?;
    let mut watchers = lock(&sandbox.watchers);
    if watchers.len() >= MAX_WATCHERS {
        return Err(RpcError::new(
            RpcCode::ResourceExhausted,
            format!("{MAX_WATCHERS} watchers are there already; remove one first"),
        ));
    }
    watchers.insert(id.clone(), watcher);
    Ok(json!({"watcherId": id}))
}

/// The events since the last call.
pub(super) async fn watcher_events(
    sandbox: &Sandbox,
    request: WatcherRequest,
) -> Result<Value, RpcError> {
    let watcher = lock(&sandbox.watchers).get(&request.watcher_id).cloned();
    let watcher = watcher.ok_or_else(|| no_watcher(&request.watcher_id))?;
    Ok(json!({"events": watcher.events(sandbox).await?}))
}

/// Ends a watcher.
pub(super) async fn remove_watcher(
    sandbox: &Sandbox,
    request: WatcherRequest,
) -> Result<Value, RpcError> {
    let removed = lock(&sandbox.watchers).remove(&request.watcher_id);
    removed.ok_or_else(|| no_watcher(&request.watcher_id))?;
    Ok(json!({}))
}

fn no_watcher(id: &str) -> RpcError {
    let shown: String = id.chars().take(64).collect();
    RpcError::not_found(format!("watcher with id {shown} not found"))
}

/// Watches a directory as long as the client reads.
pub(super) async fn watch_dir(
    sandbox: &Arc<Sandbox>,
    headers: &HeaderMap,
    request: WatchRequest,
) -> Response {
    let watcher = match DirectoryWatcher::new(sandbox, request).await {
        Ok(watcher) => watcher,
        Err(error) => return failed_stream(error).await,
    };
    let (sender, response) = stream_response();
    let ends_at = timeout_of(headers).map(|timeout| Instant::now() + timeout);
    let keepalive = keepalive_of(headers);
    let sandbox = Arc::clone(sandbox);
    tokio::spawn(async move {
        let outcome = tokio::select! {
            () = sandbox.gone.cancelled() => return sender.break_off().await,
            () = sender.closed() => return,
            () = wait_until(ends_at) => Err(RpcError::new(
                RpcCode::DeadlineExceeded,
                "the time of the call is over",
            )),
            outcome = watcher.pass_on(&sandbox, &sender, keepalive) => outcome,
        };
        sender.end(outcome).await;
    });
    response
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl DirectoryWatcher {
    async fn new(sandbox: &Sandbox, request: WatchRequest) -> Result<DirectoryWatcher, RpcError> {
        let path = sandbox.absolute(&request.path);
        let found = sandbox.live.session.paths().stat(&path).await?;
        if found.kind != FileKind::Directory {
            return Err(RpcError::invalid(format!("path {path} is not a directory")));
        }
        let watcher = DirectoryWatcher {
            path,
            depth: if request.recursive { MAX_DEPTH } else { 1 },
            entries: match request.include_entry {
                true => EntryInfo::Included,
                false => EntryInfo::LeftOut,
            },
            seen: Mutex::new(Listing::new()),
        };
        *watcher.seen.lock().await = watcher.look(sandbox).await?;
        Ok(watcher)
    }

    async fn look(&self, sandbox: &Sandbox) -> Result<Listing, RpcError> {
        let found = sandbox
            .live
            .session
            .paths()
            .list(&self.path, self.depth)
            .await?;
        if found.len() > MAX_ENTRIES {
            return Err(RpcError::new(
                RpcCode::ResourceExhausted,
                format!(
                    "{} has more than {MAX_ENTRIES} entries and cannot be watched",
                    self.path
                ),
            ));
        }
        let below = |stat: &FileStat| {
            let name = stat.path.strip_prefix(&self.path).unwrap_or(&stat.path);
            name.trim_start_matches('/').to_owned()
        };
        Ok(found
            .iter()
            .map(|stat| (below(stat), Seen::from(stat)))
            .collect())
    }

    /// What happened since the last call.
    async fn events(&self, sandbox: &Sandbox) -> Result<Vec<Value>, RpcError> {
        let mut seen = self.seen.lock().await;
        let now = self.look(sandbox).await?;
        let changes = changes(&seen, &now);
        *seen = now;
        let mut events = Vec::new();
        for (name, kind) in changes {
            let mut event = json!({"name": name, "type": kind});
            if self.entries == EntryInfo::Included
                && let Ok(entry) = entry_at(sandbox, &format!("{}/{name}", self.path)).await
            {
                event["entry"] = entry;
            }
            events.push(event);
        }
        Ok(events)
    }

    async fn pass_on(
        &self,
        sandbox: &Sandbox,
        sender: &StreamSender,
        keepalive: Duration,
    ) -> Result<(), RpcError> {
        let mut last_sent = Instant::now();
        let gone = |_: ClientGone| RpcError::new(RpcCode::Unavailable, "the client is gone");
        sender.send(&json!({"start": {}})).await.map_err(gone)?;
        loop {
            for event in self.events(sandbox).await? {
                sender
                    .send(&json!({"filesystem": event}))
                    .await
                    .map_err(gone)?;
                last_sent = Instant::now();
            }
            if last_sent.elapsed() >= keepalive {
                sender.send(&json!({"keepalive": {}})).await.map_err(gone)?;
                last_sent = Instant::now();
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
}

impl From<&FileStat> for Seen {
    fn from(stat: &FileStat) -> Seen {
        Seen {
            kind: stat.kind,
            bytes: stat.bytes,
            mode: stat.mode,
            modified: stat.modified,
        }
    }
}

/// The events that lead from one listing to another. An entry that is gone and has an equal one under a new name was renamed.
fn changes(before: &Listing, after: &Listing) -> Vec<(String, &'static str)> {
    let is_new = |name: &&String| !before.contains_key(*name);
    let mut new: Vec<&String> = after.keys().filter(is_new).collect();
    let mut events = Vec::new();
    for (name, old) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
        let renamed = new.iter().position(|new| after.get(*new) == Some(old));
        match renamed.map(|index| new.remove(index)) {
            Some(to) => {
                events.push((name.clone(), "EVENT_TYPE_RENAME"));
                events.push((to.clone(), "EVENT_TYPE_CREATE"));
            }
            None => events.push((name.clone(), "EVENT_TYPE_REMOVE")),
        }
    }
    for name in new {
        events.push((name.clone(), "EVENT_TYPE_CREATE"));
        if after
            .get(name)
            .is_some_and(|seen| seen.kind == FileKind::File && seen.bytes > 0)
        {
            events.push((name.clone(), "EVENT_TYPE_WRITE"));
        }
    }
    for (name, now) in after {
        let Some(old) = before.get(name) else {
            continue;
        };
        // A directory is not written to: what happens in it has events of its own.
        let is_written = now.kind != FileKind::Directory
            && (old.bytes != now.bytes || old.modified != now.modified);
        if is_written {
            events.push((name.clone(), "EVENT_TYPE_WRITE"));
        }
        if old.mode != now.mode {
            events.push((name.clone(), "EVENT_TYPE_CHMOD"));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(entries: &[(&str, u64, u32, f64)]) -> Listing {
        let seen = |(name, bytes, mode, modified): &(&str, u64, u32, f64)| {
            let seen = Seen {
                kind: FileKind::File,
                bytes: *bytes,
                mode: *mode,
                modified: *modified,
            };
            ((*name).to_owned(), seen)
        };
        entries.iter().map(seen).collect()
    }

    #[test]
    fn two_listings_tell_what_happened_between_them() {
        let before = listing(&[
            ("gone", 1, 0o644, 1.0),
            ("old", 2, 0o644, 2.0),
            ("same", 3, 0o644, 3.0),
            ("touched", 4, 0o644, 4.0),
            ("marked", 5, 0o644, 5.0),
        ]);
        let after = listing(&[
            ("new", 2, 0o644, 2.0),
            ("same", 3, 0o644, 3.0),
            ("touched", 4, 0o644, 9.0),
            ("marked", 5, 0o755, 5.0),
            ("made", 7, 0o644, 9.0),
        ]);
        let told = changes(&before, &after);
        let expected = [
            ("gone", "EVENT_TYPE_REMOVE"),
            ("old", "EVENT_TYPE_RENAME"),
            ("new", "EVENT_TYPE_CREATE"),
            ("made", "EVENT_TYPE_CREATE"),
            ("made", "EVENT_TYPE_WRITE"),
            ("marked", "EVENT_TYPE_CHMOD"),
            ("touched", "EVENT_TYPE_WRITE"),
        ];
        let expected: Vec<(String, &str)> = expected
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), *kind))
            .collect();
        assert_eq!(told, expected);
    }
}
