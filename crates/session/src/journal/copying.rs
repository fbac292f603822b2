//! A private copy of a user's directory, for replaying cells in it.

use crate::files::entry_state::{TrackedKind, WorkspaceListing};
use crate::files::fork_copy::Copies;
use crate::files::workspace::Workspace;
use crate::{Error, WorkspaceProblem};
use cellblock_sandbox::{Confined, Links};
use std::io;
use std::path::Path;

/// The largest directory that is copied, in bytes. For a larger one the caller has to name a directory to work in.
pub const MAX_COPIED_BYTES: u64 = 1 << 30;
/// The largest directory that is copied, in entries.
pub const MAX_COPIED_ENTRIES: usize = 100_000;

/// Copies the files, directories and links of `from` into the empty directory `to`. Links are copied and never followed: code of
/// a session may have put them there.
pub fn copy_directory(from: &Path, to: &Path) -> Result<(), Error> {
    // The path was a real one when it was recorded.
    if from.canonicalize().is_ok_and(|real| real != from) {
        return Err(Error::workspace(from, WorkspaceProblem::LeadsElsewhere));
    }
    let source = Workspace::in_user_directory(from)?;
    let WorkspaceListing {
        entries: found,
        left,
        ..
    } = source.walk(Path::new(""), &mut |_, _| {});
    let bytes: u64 = found.values().map(|seen| seen.bytes).sum();
    if bytes > MAX_COPIED_BYTES || found.len() > MAX_COPIED_ENTRIES || !left.is_empty() {
        let entries = found.len();
        let problem = WorkspaceProblem::TooLargeToCopy { entries, bytes };
        return Err(Error::workspace(from, problem));
    }
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |source: io::Error| Error::File { path, source }
    };
    let target = Confined::open(to).map_err(failed(to))?;
    let copies = Copies {
        from: &source,
        to: &target,
        privileged: false,
    };
    // A directory comes before what is in it: its path is shorter, and so sorted first.
    for (path, seen) in &found {
        let copied = match seen.kind {
            TrackedKind::Directory => target.make_directories(path, Links::AreNotFollowed),
            TrackedKind::Link
            | TrackedKind::File
            | TrackedKind::Pipe
            | TrackedKind::SocketOrDevice => copies.copy(path, seen),
        };
        copied.map_err(failed(path))?;
    }
    Ok(())
}
