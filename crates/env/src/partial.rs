//! A directory that is put in place only when it is complete.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Error, dirs};

/// A directory beside the final one, on the same file system. Dropped before [`Partial::finish`], it is
/// removed with all that is in it.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    target: PathBuf,
}

impl Partial {
    /// Names (and does not make) a directory for the target.
    pub(crate) fn of(target: &Path) -> Self {
        let path = target.with_file_name(format!(
            "{}{}",
            prefix(target).unwrap_or_default(),
            std::process::id()
        ));
        Self {
            path,
            target: target.to_owned(),
        }
    }

    /// A directory to work in beside the target, which is never put in its place.
    pub(crate) fn room_for(target: &Path) -> Self {
        let mut room = Self::of(target);
        room.path.as_mut_os_string().push("-room");
        room
    }

    /// Removes what processes that were killed left beside the target. Only for one who holds the
    /// target's lock: nobody else can be at work there.
    pub(crate) fn sweep(target: &Path) {
        let (Some(parent), Some(prefix)) = (target.parent(), prefix(target)) else {
            return;
        };
        let Ok(entries) = fs::read_dir(parent) else {
            return;
        };
        for entry in entries.filter_map(Result::ok) {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let _ = dirs::remove(&entry.path());
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves it into place. What stood there before is moved away first and removed.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let mut old = self.path.clone().into_os_string();
        old.push("-old");
        let old = PathBuf::from(old);
        match fs::rename(&self.target, &old) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("move away", &self.target, error));
            }
            _ => {}
        }
        let moved = fs::rename(&self.path, &self.target)
            .map_err(|source| Error::io("move into place", &self.target, source));
        let _ = dirs::remove(&old);
        moved
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Nothing is there after `finish`.
        let _ = dirs::remove(&self.path);
    }
}

fn prefix(target: &Path) -> Option<String> {
    let name = target.file_name()?.to_string_lossy();
    Some(format!(".{name}.partial-"))
}
