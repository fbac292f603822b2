//! Which maps of this process are shared memory. The kernel is asked for the shared ones (Linux 6.11); an older one lists all.

use super::tables::SharedMap;
use crate::sys::text::{hexadecimal, leading_number};
use crate::sys::{
    AT_FDCWD, Errno, Fd, Result, close, each_line_at, nr, open, open_flags, status, syscall,
};
use core::ffi::CStr;

/// Which memory it is: the file system, and the number there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MemoryPlace {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundMaps {
    /// Which file systems hold shared memory.
    pub(super) kinds: Kinds,
    /// How many maps.
    pub(super) count: usize,
    /// Bytes in maps for which there was no room, or that others may use who are not of this session.
    pub(super) left_out: u64,
}

/// One map as the kernel tells of it.
#[derive(Clone, Copy)]
struct MapEntry<'a> {
    map: SharedMap,
    path: &'a [u8],
}

const LONGEST_PATH: usize = 4096;

/// Finds the maps of shared memory, but for the one that begins at `own`. With `has_own_directories` the files in `/dev/shm` and `/tmp` are
/// the session's alone. `None` where `/proc` cannot be read.
pub(super) fn find(
    own: usize,
    has_own_directories: bool,
    maps: &mut [SharedMap],
) -> Option<FoundMaps> {
    let mut found = FoundMaps::new(has_own_directories);
    let list = open(c"/proc/self/maps", open_flags::RDONLY, 0).ok()?;
    let mut name = [0; LONGEST_PATH];
    let mut query = Query::default();
    let is_answered = match query.ask(list, own, 0, &mut []) {
        Ok(()) => {
            found.kinds.internal = Some(query.map().place.device);
            true
        }
        // No map there; and a kernel that does not know the question says so.
        Err(Errno::NOENT) => true,
        Err(_) => false,
    };
    if is_answered {
        let mut address = 0;
        // The name is needed only where others have files in the same directories.
        let bytes = if has_own_directories { 0 } else { name.len() };
        while query
            .ask(
                list,
                address,
                Query::SHARED_FROM_HERE_ON,
                &mut name[..bytes],
            )
            .is_ok()
        {
            let map = query.map();
            let length = (query.name_bytes as usize).saturating_sub(1).min(bytes);
            let path = &name[..length];
            found.take(MapEntry { map, path }, own, maps);
            address = map.end;
        }
    }
    close(list);
    if !is_answered {
        // The first reading finds what kind of memory the guest's own is.
        for _ in 0..2 {
            (found.count, found.left_out) = (0, 0);
            let _ = each_line_at(AT_FDCWD, c"/proc/self/maps", |line| {
                let Some(entry) = parse(line) else { return };
                if entry.map.start == own {
                    found.kinds.internal = Some(entry.map.place.device);
                } else {
                    found.take(entry, own, maps);
                }
            });
        }
    }
    Some(found)
}

impl FoundMaps {
    fn new(has_own_directories: bool) -> FoundMaps {
        FoundMaps {
            kinds: Kinds {
                has_own_directories,
                internal: None,
                directories: None,
            },
            count: 0,
            left_out: 0,
        }
    }

    fn take(&mut self, entry: MapEntry<'_>, own: usize, maps: &mut [SharedMap]) {
        let map = entry.map;
        if map.start == own || !self.kinds.is_memory(map.place.device) {
            return;
        }
        // In a directory that others use too, a file with a name may be theirs.
        let is_shared_with_others = Some(map.place.device) != self.kinds.internal
            && !self.kinds.has_own_directories
            && !entry.path.ends_with(b" (deleted)");
        match maps.get_mut(self.count) {
            Some(slot) if !is_shared_with_others => {
                *slot = map;
                self.count += 1;
            }
            // Without a change through this map nothing is lost.
            _ if map.protection & 2 == 0 => {}
            _ => self.left_out += (map.end - map.start) as u64,
        }
    }
}

/// Which file systems hold shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds {
    has_own_directories: bool,
    /// The kernel's own, without names: `memfd`, anonymous memory, segments of System V.
    internal: Option<u64>,
    /// Those of `/dev/shm` and `/tmp`, once they were asked for.
    directories: Option<[Option<u64>; 2]>,
}

impl Kinds {
    /// Whether the files of this file system are memory.
    pub(super) fn is_memory(&mut self, device: u64) -> bool {
        if Some(device) == self.internal {
            return true;
        }
        let directories = *self.directories.get_or_insert_with(|| {
            [c"/dev/shm", c"/tmp"].map(|path| memory_file_system(path, self.has_own_directories))
        });
        directories.contains(&Some(device))
    }
}

/// The file system of a directory, if its files are memory.
fn memory_file_system(path: &CStr, is_own: bool) -> Option<u64> {
    let directory = open(path, open_flags::PATH | open_flags::DIRECTORY, 0).ok()?;
    let device = status(directory).ok().map(|status| status.device);
    close(directory);
    const IN_MEMORY: u64 = 0x0102_1994;
    let is_memory = is_own || file_system_kind(path) == Some(IN_MEMORY);
    device.filter(|_| is_memory)
}

fn file_system_kind(path: &CStr) -> Option<u64> {
    let mut words = [0u64; 15];
    // SAFETY: the path is a C string; `struct statfs` is 120 bytes.
    let outcome = unsafe {
        syscall(
            nr::STATFS,
            [path.as_ptr() as usize, words.as_mut_ptr() as usize],
        )
    };
    outcome.is_ok().then_some(words[0])
}

/// `struct procmap_query`
#[repr(C)]
#[derive(Default)]
struct Query {
    bytes: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    map_flags: u64,
    page_bytes: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    name_bytes: u32,
    build_id_bytes: u32,
    name: u64,
    build_id: u64,
}

impl Query {
    const SHARED_FROM_HERE_ON: u64 = 0x8 | 0x10;
    const PROTECTION: u64 = 7;

    /// `PROCMAP_QUERY`
    fn ask(&mut self, maps: Fd, address: usize, flags: u64, name: &mut [u8]) -> Result<()> {
        const ASK: usize = 0xC068_6611;
        *self = Query {
            bytes: size_of::<Query>() as u64,
            flags,
            address: address as u64,
            name_bytes: name.len() as u32,
            name: if name.is_empty() {
                0
            } else {
                name.as_mut_ptr() as u64
            },
            ..Query::default()
        };
        let words = [maps as usize, ASK, &raw mut *self as usize];
        // SAFETY: the kernel's structure with its size, and a buffer of the size that is told.
        unsafe { syscall(nr::IOCTL, words) }.map(drop)
    }

    fn map(&self) -> SharedMap {
        SharedMap {
            start: self.start as usize,
            end: self.end as usize,
            protection: (self.map_flags & Self::PROTECTION) as usize,
            offset: self.offset,
            place: MemoryPlace {
                device: device(u64::from(self.major), u64::from(self.minor)),
                inode: self.inode,
            },
            ..SharedMap::NONE
        }
    }
}

/// The number of a device as `stat` tells it.
fn device(major: u64, minor: u64) -> u64 {
    minor & 0xFF | major << 8 | (minor & !0xFF) << 12
}

/// `7f2c00000000-7f2c00001000 rw-s 00000000 00:01 1026   /dev/zero (deleted)`; `None` for a map that is not shared.
fn parse(line: &[u8]) -> Option<MapEntry<'_>> {
    let mut words = line.splitn(6, |byte| *byte == b' ');
    let (start, end) = pair(words.next()?, b'-')?;
    let rights = words.next()?;
    if rights.get(3) != Some(&b's') {
        return None;
    }
    let can = |index: usize, letter: u8| usize::from(rights[index] == letter) << index;
    let offset = hexadecimal(words.next()?)?;
    let (major, minor) = pair(words.next()?, b':')?;
    let inode = leading_number(words.next()?)?;
    Some(MapEntry {
        map: SharedMap {
            start: start as usize,
            end: end as usize,
            protection: can(0, b'r') | can(1, b'w') | can(2, b'x'),
            offset,
            place: MemoryPlace {
                device: device(major, minor),
                inode,
            },
            ..SharedMap::NONE
        },
        path: words.next().unwrap_or_default().trim_ascii_start(),
    })
}

/// Two hexadecimal numbers.
fn pair(text: &[u8], between: u8) -> Option<(u64, u64)> {
    let at = text.iter().position(|byte| *byte == between)?;
    Some((hexadecimal(&text[..at])?, hexadecimal(&text[at + 1..])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_read() {
        let line = b"7f2c00000000-7f2c00002000 rw-s 00001000 00:2a 1026                       /dev/shm/a b (deleted)";
        let entry = parse(line).unwrap();
        assert_eq!(entry.path, b"/dev/shm/a b (deleted)");
        let map = entry.map;
        assert_eq!(
            (map.start, map.end, map.protection, map.offset),
            (0x7f2c_0000_0000, 0x7f2c_0000_2000, 3, 0x1000)
        );
        let place = MemoryPlace {
            device: 0x2A,
            inode: 1026,
        };
        assert_eq!(map.place, place);
        for other in [
            &b"7f2c00000000-7f2c00002000 rw-p 00000000 00:00 0"[..],
            b"7f",
            b"",
        ] {
            assert!(parse(other).is_none());
        }
    }

    #[test]
    fn devices_are_numbered_as_stat_does() {
        assert_eq!(device(8, 1), 0x801);
        assert_eq!(device(0, 0x12345), 0x45 | 0x123 << 20);
    }
}
