//! What installers fetched before. They keep it in a cache of ours, which is moved into the room of one of them at a time: behind
//! walls there is one place to write, and no cache of the user's.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{dirs, lock::Lock};

/// A larger cache is thrown away.
const MOST: u64 = 4 << 30;
/// What it is called in a room.
pub(crate) const NAME: &str = "downloads";

/// A cache that is lent to a room, and given back when this is dropped: by then nobody may be at work there.
#[derive(Debug)]
pub(crate) struct Downloads {
    home: PathBuf,
    lent: PathBuf,
    lock: Option<Lock>,
}

impl Downloads {
    /// Moves it into the room. While another room has it, this one begins with an empty one, which goes with the room.
    pub(crate) fn lend(tools: &Path, room: &Path) -> Self {
        let (home, lent) = (tools.join(NAME), room.join(NAME));
        let lock = dirs::create(tools)
            .ok()
            .and_then(|()| Lock::take_now(&Lock::of(&home)));
        if lock.is_some() {
            let _ = fs::rename(&home, &lent);
        }
        Self { home, lent, lock }
    }
}

impl Drop for Downloads {
    fn drop(&mut self) {
        if self.lock.is_none() {
            return;
        }
        // Who worked there may have left a link in its place.
        let is_directory = fs::symlink_metadata(&self.lent).is_ok_and(|found| found.is_dir());
        if is_directory && size(&self.lent, MOST) < MOST {
            let _ = fs::rename(&self.lent, &self.home);
        }
    }
}

/// The size of a tree, or as much of it as is enough.
fn size(path: &Path, enough: u64) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let Ok(found) = entry.metadata() else {
            continue;
        };
        bytes += if found.is_dir() {
            size(&entry.path(), enough)
        } else {
            found.len()
        };
        if bytes >= enough {
            break;
        }
    }
    bytes
}
