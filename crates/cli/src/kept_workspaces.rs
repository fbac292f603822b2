//! How long the workspaces of ended sessions are kept, and their removal in the background.

use crate::failure::Usage;
use cellblock::{KeptWorkspaces, WorkspaceRetention, parse_age, parse_size};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The time between two automatic removals.
const TIME_BETWEEN_REMOVALS: Duration = Duration::from_secs(3600);

/// How long workspaces are kept, by the environment of the user.
pub(crate) fn retention_of_user() -> anyhow::Result<WorkspaceRetention> {
    let usual = WorkspaceRetention::default();
    let max_age = variable("CELLBLOCK_KEEP_WORKSPACES", parse_age)?;
    let max_bytes = variable("CELLBLOCK_MAX_WORKSPACES", parse_size)?;
    Ok(WorkspaceRetention {
        max_age: max_age.unwrap_or(usual.max_age),
        max_bytes: max_bytes.unwrap_or(usual.max_bytes),
    })
}

fn variable<T, E: std::fmt::Display>(
    name: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> anyhow::Result<Option<T>> {
    let Ok(text) = std::env::var(name) else {
        return Ok(None);
    };
    let parsed = parse(&text);
    let parsed = parsed.map_err(|error| Usage::plain(format!("{name}={text}: {error}")))?;
    Ok(Some(parsed))
}

/// Removes expired workspaces on a thread of its own, at most once an hour. The command does not wait for it, and a failure costs it nothing.
pub(crate) fn remove_expired_in_background(state: &Path) {
    let Ok(retention) = retention_of_user() else {
        return;
    };
    let state = state.to_owned();
    std::thread::spawn(move || {
        let stamp = state.join("workspaces-checked");
        let checked = fs::metadata(&stamp).and_then(|metadata| metadata.modified());
        let is_due = checked.map_or(true, |at| {
            at.elapsed()
                .is_ok_and(|elapsed| elapsed > TIME_BETWEEN_REMOVALS)
        });
        // Only where there is something to look at, and not in a state directory that does not exist yet.
        if is_due && state.join("workspaces").is_dir() && touch(&stamp).is_ok() {
            let _ = KeptWorkspaces::new(&state).remove_expired(retention);
        }
    });
}

/// Sets the time of a file that only its owner can read.
fn touch(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false).mode(0o600);
    options.open(path)?.set_modified(SystemTime::now())
}
