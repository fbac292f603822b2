//! The request that makes a session, as the zygote passes it to the native code.

use crate::Error;
use crate::SessionIds;
use crate::View;
use cellblock_native::wire::config::{Item, Spawn, walls};
use rustix::process::{Resource, getrlimit};
use std::ffi::CString;
use std::path::Path;

/// Everything that native code must know to make one session.
#[derive(Clone, Debug)]
pub struct SpawnRequest {
    spawn: Spawn,
    items: Vec<u8>,
}

impl SpawnRequest {
    /// A session behind these walls with this working directory (as it is called inside).
    pub fn new(walls: u64, home: &Path) -> Result<SpawnRequest, Error> {
        let mut request = SpawnRequest {
            spawn: Spawn {
                walls,
                ..Spawn::default()
            },
            items: Vec::new(),
        };
        request.items.extend(item(Item::Home, home, Path::new(""))?);
        Ok(request)
    }

    /// The session's own user id, counted from the zygote's.
    pub fn user(mut self, user: u32) -> SpawnRequest {
        self.spawn.user = user.into();
        // The kernel counts objects for each user id. Sessions of an ordinary user have the host's own; in namespaces that root made
        // without the right to map ids, they have one together.
        let shares_user = match SessionIds::of(self.spawn.walls) {
            SessionIds::Each { .. } => false,
            SessionIds::Shared { .. } => self.spawn.walls & walls::NAMESPACES != 0,
            SessionIds::Host => true,
        };
        self.spawn.shares_user = u64::from(shares_user);
        self
    }

    /// Memory of one process, and what the watchdog allows all together; 0 where a cgroup holds the limit.
    pub fn memory(mut self, bytes: u64, watched: u64) -> SpawnRequest {
        self.spawn.memory = bytes;
        self.spawn.watched_memory = watched;
        self
    }

    /// Processes and threads, open files.
    pub fn counts(mut self, processes: u64, open_files: u64) -> SpawnRequest {
        self.spawn.processes = processes;
        self.spawn.open_files = match SessionIds::of(self.spawn.walls) {
            SessionIds::Each { .. } => open_files,
            SessionIds::Shared { .. } | SessionIds::Host => {
                let of_host = getrlimit(Resource::Nofile).current;
                open_files.min(of_host.map_or(u64::MAX, open_files_beside_host))
            }
        };
        self
    }

    /// The largest file, and all temporary files together.
    pub fn disk(mut self, file_bytes: u64, temporary_bytes: u64) -> SpawnRequest {
        self.spawn.file_bytes = file_bytes;
        self.spawn.temporary_bytes = temporary_bytes;
        self
    }

    /// Init asks before files of the workspace are changed, on the socket that follows the workspace among the descriptors.
    pub fn keeps(mut self) -> SpawnRequest {
        self.spawn.keeps = 1;
        self
    }

    /// The host will listen on this port of the session's loopback: at 127.0.0.1 for place 0, else at 127.1.x.y, with x and y the bytes
    /// of the place.
    pub fn loopback_port(mut self, port: u16, place: u16) -> Result<SpawnRequest, Error> {
        let (port, place) = (port.to_string(), place.to_string());
        let item = item(Item::LoopbackPort, Path::new(&port), Path::new(&place))?;
        self.items.extend(item);
        Ok(self)
    }

    /// The session finds this text at `path`, where the view has another.
    pub fn file(mut self, path: &Path, text: &str) -> Result<SpawnRequest, Error> {
        self.items.extend(item(Item::File, Path::new(text), path)?);
        Ok(self)
    }

    /// Adds a path that Landlock lets the session read.
    pub fn readable(mut self, path: &Path) -> Result<SpawnRequest, Error> {
        self.items
            .extend(item(Item::Readable, path, Path::new(""))?);
        Ok(self)
    }

    /// Adds a path that Landlock lets the session change.
    pub fn writable(mut self, path: &Path) -> Result<SpawnRequest, Error> {
        self.items
            .extend(item(Item::Writable, path, Path::new(""))?);
        Ok(self)
    }

    /// Below this, Landlock lets the session change what the mounts let it change, but make no devices.
    ///
    /// A fork has mounts of its own behind the same rules. Rules are for single directories, and where something is mounted on
    /// one, its rule does not count: only those further up do. So there can be none for the workspace of a fork to come.
    pub fn mounted(mut self, path: &Path) -> Result<SpawnRequest, Error> {
        self.items.extend(item(Item::Mounted, path, Path::new(""))?);
        Ok(self)
    }

    /// The directories of the view that the session's own `/tmp` would cover.
    pub fn keep_visible(mut self, view: &View) -> Result<SpawnRequest, Error> {
        for path in view.covered_in_sessions() {
            self.items.extend(item(Item::Show, path, path)?);
        }
        Ok(self)
    }

    /// The walls that a session needs to be forked.
    pub fn can_fork(walls: u64) -> bool {
        walls & Spawn::FORKABLE == Spawn::FORKABLE
    }

    /// The wire form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.spawn.to_bytes().to_vec();
        bytes.extend_from_slice(&self.items);
        bytes
    }
}

/// How many open files a session may have that has a user id in common with the host, or with what the host has started: so many that the
/// host's own limit leaves room for descriptors on their way through sockets.
///
/// The kernel counts these descriptors for each user id. A process may send another one unless there are more of them than its own limit of open
/// files. So a session can have as many on their way as its limit is, and one or two messages more.
fn open_files_beside_host(of_host: u64) -> u64 {
    const MOST_IN_TWO_MESSAGES: u64 = 2 * 253;
    if of_host < 2 * MOST_IN_TWO_MESSAGES {
        of_host / 2
    } else {
        of_host - MOST_IN_TWO_MESSAGES
    }
}

/// A tag and two C strings.
pub(crate) fn item(tag: Item, first: &Path, second: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![tag as u8];
    for path in [first, second] {
        bytes.extend_from_slice(path_to_c_string(path)?.as_bytes_with_nul());
    }
    Ok(bytes)
}

/// A path as the native code wants it.
pub(crate) fn path_to_c_string(path: &Path) -> Result<CString, Error> {
    let refused = || Error::Path {
        path: path.to_owned(),
    };
    CString::new(path.to_str().ok_or_else(refused)?).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_has_all_its_files_on_their_way_leaves_the_host_room() {
        const ONE_MESSAGE: u64 = 253;
        assert_eq!(
            [256, 1024, 4096, 20_000].map(open_files_beside_host),
            [128, 518, 3590, 19_494]
        );
        for of_host in [1024, 4096, 20_000] {
            assert!(open_files_beside_host(of_host) + 2 * ONE_MESSAGE <= of_host);
        }
    }
}
