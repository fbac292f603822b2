//! Watched directories: what was made, written to, renamed and removed since a client last asked.

use super::connect::{
    ClientGone, RpcCode, RpcError, StreamSender, failed_stream, keepalive_of, stream_response,
    timeout_of,
};
use super::filesystem::entry_at;
use super::sandbox::{Sandbox, lock};
use crate::auth::random_id;
use axum::http::HeaderMap;
use axum::response::Response;
use cellblock_protocol::{FileKind, WatchedChange, WatchedChangeKind};
use cellblock_session::{Below, PathWatch};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The most watchers of one sandbox.
const MAX_WATCHERS: usize = 64;
/// A watched directory.
#[derive(Debug)]
pub(super) struct DirectoryWatcher {
    path: String,
    entries: EntryInfo,
    watch: Mutex<PathWatch>,
}

/// Whether events describe the entry that they are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryInfo {
    Included,
    LeftOut,
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
    Ok(json!({"events": watcher.events(sandbox).await}))
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
        let below = match request.recursive {
            true => Below::Watched,
            false => Below::NotWatched,
        };
        let watch = sandbox.live.session.paths().watch(&path, below).await?;
        Ok(DirectoryWatcher {
            path: path.trim_end_matches('/').to_owned(),
            entries: match request.include_entry {
                true => EntryInfo::Included,
                false => EntryInfo::LeftOut,
            },
            watch: Mutex::new(watch),
        })
    }

    /// What happened since the last call.
    async fn events(&self, sandbox: &Sandbox) -> Vec<Value> {
        let changes = self.watch.lock().await.take().await;
        self.describe(sandbox, &changes).await
    }

    async fn describe(&self, sandbox: &Sandbox, changes: &[WatchedChange]) -> Vec<Value> {
        let mut events = Vec::new();
        for (path, kind) in changes.iter().flat_map(events_of) {
            let name = path.strip_prefix(&self.path).unwrap_or(path);
            let mut event = json!({"name": name.trim_start_matches('/'), "type": kind});
            if self.entries == EntryInfo::Included
                && let Ok(entry) = entry_at(sandbox, path).await
            {
                event["entry"] = entry;
            }
            events.push(event);
        }
        events
    }

    async fn pass_on(
        &self,
        sandbox: &Sandbox,
        sender: &StreamSender,
        keepalive: Duration,
    ) -> Result<(), RpcError> {
        let gone = |_: ClientGone| RpcError::new(RpcCode::Unavailable, "the client is gone");
        sender.send(&json!({"start": {}})).await.map_err(gone)?;
        let mut watch = self.watch.lock().await;
        loop {
            let changes = match tokio::time::timeout(keepalive, watch.next()).await {
                Ok(Some(changes)) => changes,
                Ok(None) => return Ok(()),
                Err(_) => {
                    sender.send(&json!({"keepalive": {}})).await.map_err(gone)?;
                    continue;
                }
            };
            for event in self.describe(sandbox, &changes).await {
                sender
                    .send(&json!({"filesystem": event}))
                    .await
                    .map_err(gone)?;
            }
        }
    }
}

/// The events that E2B tells of a change. A rename is told under the old name, and as something new under the new one.
fn events_of(change: &WatchedChange) -> Vec<(&str, &'static str)> {
    let path = change.path.as_str();
    let kind = match change.kind {
        WatchedChangeKind::Create => "EVENT_TYPE_CREATE",
        WatchedChangeKind::Write => "EVENT_TYPE_WRITE",
        WatchedChangeKind::Rename => "EVENT_TYPE_RENAME",
        WatchedChangeKind::Remove => "EVENT_TYPE_REMOVE",
        WatchedChangeKind::Attributes => "EVENT_TYPE_CHMOD",
        // E2B has no word for it.
        WatchedChangeKind::Lost => return Vec::new(),
    };
    let new = change.to.as_deref().map(|to| (to, "EVENT_TYPE_CREATE"));
    [(path, kind)].into_iter().chain(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rename_is_told_under_both_names() {
        let change = |kind, to: Option<&str>| WatchedChange {
            path: "/a".to_owned(),
            kind,
            to: to.map(str::to_owned),
        };
        let rename = change(WatchedChangeKind::Rename, Some("/b"));
        let expected = [("/a", "EVENT_TYPE_RENAME"), ("/b", "EVENT_TYPE_CREATE")];
        assert_eq!(events_of(&rename), expected);
        let write = change(WatchedChangeKind::Write, None);
        assert_eq!(events_of(&write), [("/a", "EVENT_TYPE_WRITE")]);
        assert_eq!(events_of(&change(WatchedChangeKind::Lost, None)), []);
    }
}
