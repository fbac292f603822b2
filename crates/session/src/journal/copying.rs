//! A private copy of a user's directory, for replaying cells in it.

use crate::Error;
use crate::workspace::{Found, Kind, Workspace};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

/// The largest directory that is copied, in bytes. For a larger one the caller has to name a directory to work in.
pub const MAX_COPIED_BYTES: u64 = 1 << 30;
/// The largest directory that is copied, in entries.
pub const MAX_COPIED_ENTRIES: usize = 100_000;

/// Copies the files, directories and links of `from` into the empty directory `to`. Links are copied and never followed: code of
/// a session may have put them there.
pub fn copy_directory(from: &Path, to: &Path) -> Result<(), Error> {
    let source = Workspace::given(from)?;
    let Found {
        entries: found,
        left,
    } = source.walk(Path::new(""), &mut |_, _| {});
    let bytes: u64 = found.values().map(|seen| seen.bytes).sum();
    if bytes > MAX_COPIED_BYTES || found.len() > MAX_COPIED_ENTRIES || !left.is_empty() {
        return Err(Error::Workspace {
            path: from.to_owned(),
            problem: format!(
                "it has {} entries with {} MB, too much to be copied",
                found.len(),
                bytes / 1_000_000
            ),
        });
    }
    // A directory comes before what is in it: its path is shorter, and so sorted first.
    for (path, seen) in &found {
        let target = to.join(path);
        let copied = match seen.kind {
            Kind::Directory => fs::create_dir(&target),
            Kind::Link => source
                .directory()
                .read_link(path)
                .and_then(|link| symlink(link, &target)),
            Kind::File => source.directory().read(path).and_then(|mut file| {
                io::copy(&mut file, &mut File::create(&target)?)?;
                fs::set_permissions(&target, Permissions::from_mode(seen.access.mode & 0o777))
            }),
        };
        match copied {
            // Gone since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            copied => copied.map_err(|source| Error::File {
                path: path.display().to_string(),
                source,
            })?,
        }
    }
    Ok(())
}
