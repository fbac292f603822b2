//! The directory in which a host keeps what its sessions leave on disk, and who may enter it.

use crate::Error;
use crate::files::borrowed;
use cellblock_sandbox::{Reach, claim_directory, private_directory, remove_directory};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The state directory for sessions of root that run as another user and see the host's directories.
pub(crate) const OPEN_DIRECTORY: &str = "/run/cellblock";

/// A number that nothing else in this process has, whichever host asks: directories and containers are named after it.
pub(crate) fn next_number() -> u32 {
    static NUMBERS: AtomicU32 = AtomicU32::new(0);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// Makes sure that the two directories are this user's and that no other can read or change what is kept there.
pub(crate) fn claim(state: &Path, cache: &Path) -> Result<(), Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| Error::Storage {
            what: "using",
            path,
            source,
        }
    };
    claim_directory(state, reach_below(state)).map_err(failed(state))?;
    close_directories_in(state).map_err(failed(state))?;
    // Nothing in it is secret, and sessions of root's that have no view read their Python there.
    let reach = if rustix::process::geteuid().is_root() {
        Reach::PassThrough
    } else {
        Reach::OwnerOnly
    };
    claim_directory(cache, reach).map_err(failed(cache))
}

/// Closes the directories in a state directory that other users could enter: they may be older than this program.
fn close_directories_in(state: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(state)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            private_directory(&entry.path(), reach_below(state))?;
        }
    }
    Ok(())
}

/// The users that may enter directories of a state directory: in root's for sessions without a view, the sessions pass through to their own.
pub(crate) fn reach_below(state: &Path) -> Reach {
    if state.starts_with(OPEN_DIRECTORY) {
        Reach::PassThrough
    } else {
        Reach::OwnerOnly
    }
}

/// A directory for what a session spills. No other session of this process has its number.
pub(crate) fn session_directory(state: &Path, id: &str, number: u32) -> Result<PathBuf, Error> {
    let name = format!("{id}-{}-{number}", std::process::id());
    let path = state.join("sessions").join(name);
    let reach = reach_below(state);
    private_directory(&state.join("sessions"), reach)
        .and_then(|()| private_directory(&path, reach))
        .map_err(|source| Error::Storage {
            what: "making a directory for the session",
            path: path.clone(),
            source,
        })?;
    Ok(path)
}

/// Removes what hosts that were killed left behind: the name of each directory holds the process it belongs to.
pub(crate) fn remove_orphans(sessions: &Path) {
    for entry in std::fs::read_dir(sessions).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.rsplit('-').nth(1)?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            borrowed::give_back_for(&entry.path());
            let _ = remove_directory(&entry.path());
        }
    }
}
