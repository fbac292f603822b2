//! The files in `/dev/shm`: which there are, and putting their names back.
//!
//! What they hold is noted like any shared memory. A file that nothing has mapped is mapped for the copy, which keeps it so.

use super::maps::{Kinds, MemoryPlace};
use super::tables::{MAX_NAMES, SharedMap, Tables};
use super::{shadow, with_file};
use crate::arch::page_bytes;
use crate::forks::file_offsets::OpenFile;
use crate::sys::{
    self, Fd, Result, close, nr, open, open_at, open_flags, read_directory, status, syscall,
    unlink_at, write_at,
};
use core::ffi::CStr;

const DIRECTORY: &CStr = c"/dev/shm";
const LONGEST_NAME: usize = 256;
const READ_WRITE: usize = 3;
const SHARED: usize = 1;
const FIXED: usize = 0x10;

/// A file with its name.
#[derive(Clone, Copy)]
pub(super) struct NamedFile {
    /// It ends in a zero byte.
    bytes: [u8; LONGEST_NAME],
    place: MemoryPlace,
    size: u64,
    mode: u32,
    /// Whether its contents are noted, or there are none.
    is_kept: bool,
}

impl NamedFile {
    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

fn open_directory() -> Result<Fd> {
    open(DIRECTORY, open_flags::RDONLY | open_flags::DIRECTORY, 0)
}

/// Whether there is anything in the directory.
pub(super) fn has_any() -> bool {
    let mut any = false;
    if let Ok(directory) = open_directory() {
        each(directory, |_| any = true);
        close(directory);
    }
    any
}

/// Calls `visit` with every name in a directory.
fn each(directory: Fd, mut visit: impl FnMut(&CStr)) {
    const NAME: usize = 19;
    let mut buffer = [0u8; 4096];
    while let Ok(length @ 1..) = read_directory(directory, &mut buffer) {
        let mut entries = &buffer[..length];
        while entries.len() > NAME {
            let size = usize::from(u16::from_ne_bytes([entries[16], entries[17]]));
            let name = CStr::from_bytes_until_nul(&entries[NAME..]).unwrap_or_default();
            if name != c"." && name != c".." {
                visit(name);
            }
            entries = entries.get(size.max(NAME)..).unwrap_or(&[]);
        }
    }
}

/// Opens a plain file of the directory, and no other thing that has the name.
fn open_file(directory: Fd, name: &CStr, flags: usize) -> Option<Fd> {
    // What is no plain file, such as a pipe, must not be opened: it may wait.
    let found = open_at(directory, name, open_flags::PATH | open_flags::NOFOLLOW, 0).ok()?;
    let is_file = with_file(found, status).is_ok_and(sys::Status::is_file);
    if !is_file {
        return None;
    }
    open_at(
        directory,
        name,
        flags | open_flags::NOFOLLOW | open_flags::NONBLOCK,
        0,
    )
    .ok()
}

/// Notes all files, and maps those that nothing has mapped as a whole. Returns how many bytes are left out.
pub(super) fn note(tables: &mut Tables) -> u64 {
    let Ok(directory) = open_directory() else {
        return 0;
    };
    let mut left_out = 0;
    each(directory, |name| {
        let Some(file) = open_file(directory, name, open_flags::RDWR) else {
            return;
        };
        left_out += with_file(file, |file| note_file(tables, name, file));
    });
    close(directory);
    left_out
}

fn note_file(tables: &mut Tables, name: &CStr, file: Fd) -> u64 {
    let Ok(status) = status(file) else { return 0 };
    let place = MemoryPlace {
        device: status.device,
        inode: status.inode,
    };
    let Some(slot) = tables.names.get_mut(tables.name_count) else {
        tables.has_more_names = true;
        return status.size.max(1);
    };
    *slot = NamedFile {
        bytes: [0; LONGEST_NAME],
        place,
        size: status.size,
        mode: status.permissions(),
        is_kept: true,
    };
    let bytes = name.to_bytes();
    slot.bytes[..bytes.len()].copy_from_slice(bytes);
    tables.name_count += 1;
    if !is_mapped_as_a_whole(tables, place, status.size, file) {
        tables.names[tables.name_count - 1].is_kept = false;
        return status.size;
    }
    0
}

/// Maps open files that are memory and have no name. What cannot be mapped is not noted, and the guest names it.
pub(super) fn note_nameless(tables: &mut Tables, kinds: &mut Kinds, files: &[OpenFile]) {
    for file in files {
        if let Some(status) = nameless_memory(kinds, file) {
            let place = MemoryPlace {
                device: status.device,
                inode: status.inode,
            };
            is_mapped_as_a_whole(tables, place, status.size, file.descriptor());
        }
    }
}

/// Whether a file is memory and has no name.
pub(super) fn nameless_memory(kinds: &mut Kinds, file: &OpenFile) -> Option<sys::Status> {
    let status = status(file.descriptor()).ok()?;
    let is_nameless = status.is_file() && status.names == 0;
    (is_nameless && kinds.is_memory(status.device)).then_some(status)
}

/// Sees to it that all of a file is mapped, by the code or for the copy.
fn is_mapped_as_a_whole(tables: &mut Tables, place: MemoryPlace, size: u64, file: Fd) -> bool {
    let is_mapped = |map: &SharedMap| {
        map.place == place && map.offset == 0 && (map.end - map.start) as u64 >= size
    };
    if size == 0 || tables.maps[..tables.map_count].iter().any(is_mapped) {
        return true;
    }
    map_file(file, size).is_some_and(|map| {
        let is_added = tables.add_map(SharedMap { place, ..map });
        if !is_added {
            unmap(&map);
        }
        is_added
    })
}

fn map_file(file: Fd, size: u64) -> Option<SharedMap> {
    let bytes = usize::try_from(size)
        .ok()?
        .checked_next_multiple_of(page_bytes())?;
    let words = [0, bytes, READ_WRITE, SHARED, file as usize, 0];
    // SAFETY: a fresh mapping.
    let start = unsafe { syscall(nr::MMAP, words) }.ok()?;
    Some(SharedMap {
        start,
        end: start + bytes,
        protection: READ_WRITE,
        is_temporary: true,
        ..SharedMap::NONE
    })
}

fn unmap(map: &SharedMap) {
    // SAFETY: a map that was just made.
    let _ = unsafe { syscall(nr::MUNMAP, [map.start, map.end - map.start]) };
}

/// Puts sizes of files back that still have their names. What they hold is put back after that.
pub(super) fn put_sizes_back(tables: &Tables) {
    let Ok(directory) = open_directory() else {
        return;
    };
    for name in &tables.names[..tables.name_count] {
        if is_there(directory, name) == Presence::WithAnotherSize
            && let Some(file) = open_file(directory, name.as_c_str(), open_flags::RDWR)
        {
            let _ = with_file(file, |file| sys::truncate(file, name.size));
        }
    }
    close(directory);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    AsBefore,
    WithAnotherSize,
    WithAnotherMode,
    Gone,
}

fn is_there(directory: Fd, name: &NamedFile) -> Presence {
    let flags = open_flags::PATH | open_flags::NOFOLLOW;
    let Ok(file) = open_at(directory, name.as_c_str(), flags, 0) else {
        return Presence::Gone;
    };
    match with_file(file, status) {
        Ok(now) if (now.device, now.inode) != (name.place.device, name.place.inode) => {
            Presence::Gone
        }
        Ok(now) if now.size != name.size => Presence::WithAnotherSize,
        Ok(now) if now.permissions() != name.mode => Presence::WithAnotherMode,
        Ok(_) => Presence::AsBefore,
        Err(_) => Presence::Gone,
    }
}

/// Puts the names back, when all contents are. Returns how many could not be.
pub(super) fn put_back(tables: &mut Tables, is_alone: bool) -> u64 {
    let Ok(directory) = open_directory() else {
        return 0;
    };
    let mut lost = remove_new(directory, tables, is_alone);
    for index in 0..tables.name_count {
        let name = &tables.names[index];
        let is_right = match is_there(directory, name) {
            Presence::AsBefore => true,
            Presence::WithAnotherSize => false,
            Presence::WithAnotherMode => {
                let mode = u64::from(name.mode);
                sys::change_mode_at(directory, name.as_c_str(), mode).is_ok()
            }
            Presence::Gone => make_again(directory, tables, index).is_some(),
        };
        lost += u64::from(!is_right);
    }
    close(directory);
    lost
}

/// Removes the files that cells made which were taken back.
fn remove_new(directory: Fd, tables: &Tables, is_alone: bool) -> u64 {
    if tables.has_more_names {
        return 0;
    }
    let mut lost = 0;
    // A directory that is listed while names are removed may leave some out: as often as there are any.
    for _ in 0..MAX_NAMES {
        let mut removed = 0;
        lost = 0;
        if sys::seek(directory, 0).is_err() {
            break;
        }
        each(directory, |name| {
            let known = &tables.names[..tables.name_count];
            if known.iter().any(|known| known.as_c_str() == name) {
                return;
            }
            match is_alone && unlink_at(directory, name).is_ok() {
                true => removed += 1,
                false => lost += 1,
            }
        });
        if removed == 0 {
            break;
        }
    }
    lost
}

/// Makes a file again whose name is gone or leads to another one, and lets the maps of the old one lead to it.
fn make_again(directory: Fd, tables: &mut Tables, index: usize) -> Option<()> {
    let name = tables.names[index];
    if !name.is_kept {
        return None;
    }
    let _ = unlink_at(directory, name.as_c_str());
    let flags = open_flags::RDWR | open_flags::CREAT | open_flags::EXCL;
    let file = open_at(directory, name.as_c_str(), flags, 0o600).ok()?;
    with_file(file, |file| {
        sys::truncate(file, name.size).ok()?;
        let mode = u64::from(name.mode);
        sys::change_mode_at(directory, name.as_c_str(), mode).ok()?;
        let now = status(file).ok()?;
        let place = MemoryPlace {
            device: now.device,
            inode: now.inode,
        };
        write_contents(tables, &name, file)?;
        tables.names[index].place = place;
        let maps = &mut tables.maps[..tables.map_count];
        for map in maps.iter_mut().filter(|map| map.place == name.place) {
            let words = [
                map.start,
                map.end - map.start,
                map.protection,
                SHARED | FIXED,
                file as usize,
                map.offset as usize,
            ];
            // SAFETY: in the place of a map of the old file; nothing else runs in this process.
            unsafe { syscall(nr::MMAP, words) }.ok()?;
            // The descriptor leads to the old one.
            (map.place, map.file) = (place, -1);
        }
        Some(())
    })
}

fn write_contents(tables: &Tables, name: &NamedFile, file: Fd) -> Option<()> {
    let maps = &tables.maps[..tables.map_count];
    for map in maps.iter().filter(|map| map.place == name.place) {
        if !map.is_kept {
            return None;
        }
        for run in &tables.runs[map.runs.0..map.runs.1] {
            for page in 0..run.count {
                let slot = shadow::present_slot(run.slot + page)?;
                let offset = ((run.first + page) * page_bytes()) as u64;
                let bytes = name.size.saturating_sub(offset).min(page_bytes() as u64);
                // SAFETY: a slot of the shadow is a page.
                let contents =
                    unsafe { core::slice::from_raw_parts(slot as *const u8, bytes as usize) };
                if !contents.is_empty() {
                    write_at(file, contents, offset).ok()?;
                }
            }
        }
    }
    Some(())
}
