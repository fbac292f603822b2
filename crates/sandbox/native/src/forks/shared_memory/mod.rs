//! Memory that the head shares with other processes (`MAP_SHARED`), as it was at a checkpoint.
//!
//! A copy of the head has the same shared memory as the head, so what the head writes there after the checkpoint is in the copy too. Before
//! a copy is made, the contents are therefore noted in a **shadow**: private memory, which the copy inherits as it is then. The shadow stays in the head, and the
//! next time only pages that changed are written to it. A copy that goes on compares the memory with its shadow and puts back what differs,
//! before any of its threads runs. Pages that held nothing then are given back to the kernel.
//!
//! What is noted: anonymous shared memory, `memfd`, segments of System V, and the session's own files in `/dev/shm` and mapped ones in `/tmp`.
//! Mapped files of the workspace are the host's to put back. What does not fit is left out as a whole, and counted.
//!
//! Nothing here is trusted by init or the host: it runs in memory that hostile code may have changed, and can harm its own session alone.

mod maps;
mod names;
mod pages;
mod shadow;
mod tables;

use crate::arch::page_bytes;
use crate::forks::file_offsets::OpenFile;
use crate::sys::{self, Fd, close, nr, syscall};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use maps::MemoryPlace;
use pages::MapAccess;
pub(crate) use pages::are_all_resident;
use tables::{SharedMap, Tables};

/// What was not noted at a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Bytes of shared memory that stay as they are when the copy goes on.
    pub bytes: u64,
}

impl LeftOut {
    /// It is not known, as `/proc` cannot be read: the host looks instead.
    pub const UNKNOWN: LeftOut = LeftOut { bytes: u64::MAX };
    /// The largest number that is told: more than that means that it is not known.
    const MAX: u64 = 9_999_999_998;
}

/// Whether `/dev/shm` and `/tmp` are the session's alone.
static HAS_OWN_DIRECTORIES: AtomicBool = AtomicBool::new(false);
/// Whether the tables say what there was at the last checkpoint.
static IS_NOTED: AtomicBool = AtomicBool::new(false);
/// Bytes that could not be put back when this process was woken.
static LOST: AtomicU64 = AtomicU64::new(0);
/// Names in `/dev/shm` that could not be put back or removed then.
static LOST_NAMES: AtomicU64 = AtomicU64::new(0);

/// Tells that the temporary directories belong to this session alone.
pub fn own_temporary_directories() {
    HAS_OWN_DIRECTORIES.store(true, SeqCst);
}

/// What could not be put back when this process was woken: bytes, and names in `/dev/shm`.
pub fn lost() -> (u64, u64) {
    (LOST.load(SeqCst), LOST_NAMES.load(SeqCst))
}

/// Before a copy is made, with all other threads stopped: notes the contents of all shared memory, but for that at the address `own`, which
/// the guest shares with its copies on purpose. `files` are open files of this process.
///
/// Maps that were made for the copy are left to [`forget_temporary`].
pub fn note(own: usize, files: &[OpenFile]) -> LeftOut {
    let mut left_out = LeftOut::default();
    IS_NOTED.store(true, SeqCst);
    let has_own = HAS_OWN_DIRECTORIES.load(SeqCst);
    let mut first: [SharedMap; FEW] = [SharedMap::NONE; FEW];
    // Most sessions have no shared memory. They need no tables, and are through here.
    let Some(mut found) = maps::find(own, has_own, &mut first) else {
        IS_NOTED.store(false, SeqCst);
        return LeftOut::UNKNOWN;
    };
    let has_names = has_own && names::has_any();
    let mut is_nameless = |file| names::nameless_memory(&mut found.kinds, file).is_some();
    let has_files = files.iter().any(&mut is_nameless);
    if found.count == 0 && !has_names && !has_files && found.left_out == 0 {
        if let Some(tables) = Tables::of_process() {
            tables.forget();
            shadow::keep(0);
        }
        return left_out;
    }
    let Some(tables) = Tables::of_process_or_new() else {
        IS_NOTED.store(false, SeqCst);
        left_out.bytes = first[..found.count.min(FEW)]
            .iter()
            .map(|map| (map.end - map.start) as u64)
            .fold(found.left_out, u64::saturating_add)
            .max(1);
        return left_out;
    };
    tables.forget();
    let Some(mut found) = maps::find(own, has_own, &mut tables.maps) else {
        IS_NOTED.store(false, SeqCst);
        return LeftOut::UNKNOWN;
    };
    tables.map_count = found.count;
    left_out.bytes = found.left_out;
    if has_names {
        left_out.bytes += names::note(tables);
    }
    if has_files {
        names::note_nameless(tables, &mut found.kinds, files);
    }
    tables.sort_maps();
    find_files(tables, files);
    left_out.bytes += note_contents(tables);
    left_out.bytes = left_out.bytes.min(LeftOut::MAX);
    left_out
}

/// How many maps are looked for before there are tables.
const FEW: usize = 4;

/// After the copy was made, in the head, and in a copy that goes on: unmaps what was mapped for the copy alone.
pub fn forget_temporary() {
    let Some(tables) = Tables::of_process() else {
        return;
    };
    let (maps, _) = tables.maps_and_runs();
    for map in maps.iter_mut().filter(|map| map.is_temporary) {
        // SAFETY: a map that `names` made, and nothing else uses.
        let _ = unsafe { syscall(nr::MUNMAP, [map.start, map.end - map.start]) };
        map.is_temporary = false;
    }
}

/// In a copy that goes on, before it has other threads: shared memory is as it was when the copy was made. With `is_alone` there is no
/// other process in the session, so that names in `/dev/shm` that are new since are those of cells that were taken back.
pub fn put_back(is_alone: bool) {
    LOST.store(0, SeqCst);
    LOST_NAMES.store(0, SeqCst);
    if !IS_NOTED.load(SeqCst) {
        return;
    }
    let has_own = HAS_OWN_DIRECTORIES.load(SeqCst);
    let tables = match Tables::of_process() {
        // There was no shared memory; there may be files that are new.
        None if has_own && names::has_any() => Tables::of_process_or_new(),
        tables => tables,
    };
    let Some(tables) = tables else {
        return;
    };
    let mut lost = 0;
    put_sizes_back(tables);
    if has_own {
        names::put_sizes_back(tables);
    }
    for index in 0..tables.map_count {
        lost += put_map_back(tables, index);
    }
    LOST.store(lost, SeqCst);
    if has_own {
        LOST_NAMES.store(names::put_back(tables, is_alone), SeqCst);
    }
}

/// In a copy that goes on: whether all that this open file holds was put back.
pub fn has_put_back(file: Fd) -> bool {
    let (Some(tables), Ok(now)) = (Tables::of_process(), sys::status(file)) else {
        return false;
    };
    let place = MemoryPlace {
        device: now.device,
        inode: now.inode,
    };
    let (maps, _) = tables.maps_and_runs();
    let mut end = 0;
    for map in maps.iter().filter(|map| map.place == place) {
        if map.is_kept && map.first_page() <= end {
            end = end.max(map.last_page());
        }
    }
    let is_known = maps
        .iter()
        .any(|map| map.place == place && map.size == now.size);
    let is_whole = (end * page_bytes()) as u64 >= now.size;
    IS_NOTED.load(SeqCst) && is_known && is_whole && LOST.load(SeqCst) == 0
}

/// Finds the descriptors that lead to mapped memory: by them its size can be put back.
fn find_files(tables: &mut Tables, files: &[OpenFile]) {
    let (maps, _) = tables.maps_and_runs();
    for file in files {
        let Ok(status) = sys::status(file.descriptor()) else {
            continue;
        };
        let place = MemoryPlace {
            device: status.device,
            inode: status.inode,
        };
        for map in maps.iter_mut().filter(|map| map.place == place) {
            (map.file, map.size) = (file.descriptor(), status.size);
        }
    }
}

/// Notes the contents of every map. Returns how many bytes were left out.
fn note_contents(tables: &mut Tables) -> u64 {
    let mut left_out = 0;
    let are_all_resident = pages::are_all_resident();
    let most = shadow::most_slots();
    let mut index = 0;
    while index < tables.map_count {
        // All maps of the same memory are noted, or none.
        let place = tables.maps[index].place;
        let (runs, slots) = (tables.run_count, tables.slot_count);
        let same = |map: &&SharedMap| map.place == place;
        let end = index
            + tables.maps[index..tables.map_count]
                .iter()
                .take_while(same)
                .count();
        // Nothing is copied of what cannot be noted.
        let mut fits = can_fit(&tables.maps[index..end], are_all_resident, most - slots);
        let mut from = 0;
        for map in index..end {
            fits = fits && note_map(tables, map, from, are_all_resident, most);
            from = from.max(tables.maps[map].last_page());
        }
        if !fits {
            (tables.run_count, tables.slot_count) = (runs, slots);
            for map in &mut tables.maps[index..end] {
                map.is_kept = false;
                left_out += (map.end - map.start) as u64;
            }
        }
        index = end;
    }
    shadow::keep(tables.slot_count);
    left_out
}

/// Whether so many slots are enough for these maps of the same memory.
fn can_fit(maps: &[SharedMap], are_all_resident: bool, slots: usize) -> bool {
    let pages = |map: &SharedMap| map.last_page() - map.first_page();
    if maps.iter().map(pages).sum::<usize>() <= slots {
        return true;
    }
    let (mut count, mut from) = (0, 0);
    maps.iter().all(|map| {
        let begin = map.first_page().max(from);
        from = from.max(map.last_page());
        pages::each_with_contents(map, begin, are_all_resident, |_| {
            count += 1;
            count <= slots
        })
    })
}

/// Notes the pages of one map from the page `from` of the memory on. Says whether it fitted.
fn note_map(
    tables: &mut Tables,
    index: usize,
    from: usize,
    are_all_resident: bool,
    most: usize,
) -> bool {
    let map = tables.maps[index];
    let (first_run, begin) = (tables.run_count, from.max(map.first_page()));
    let mut access = MapAccess::to(&map);
    let is_whole = pages::each_with_contents(&map, begin, are_all_resident, |page| {
        if tables.slot_count == most || !access.can_read() {
            return false;
        }
        let Some(slot) = shadow::slot(tables.slot_count) else {
            return false;
        };
        if !tables.add_page(first_run, page) {
            return false;
        }
        // SAFETY: a page of a map that can be read and that has contents, and one of the shadow.
        unsafe { shadow::refresh(slot, map.address_of(page), tables.slot_count) };
        tables.slot_count += 1;
        true
    });
    let map = &mut tables.maps[index];
    map.begin = begin.min(map.last_page());
    map.runs = (first_run, tables.run_count);
    map.is_kept = is_whole;
    is_whole
}

/// Memory that a cell made longer or shorter gets its size back, where a descriptor leads to it.
fn put_sizes_back(tables: &Tables) {
    for map in &tables.maps[..tables.map_count] {
        if map.is_kept && map.file >= 0 {
            put_size_back(map.file, map);
        }
    }
}

fn put_size_back(file: Fd, map: &SharedMap) {
    if let Ok(now) = sys::status(file)
        && (now.device, now.inode) == (map.place.device, map.place.inode)
        && now.size != map.size
    {
        let _ = sys::truncate(file, map.size);
    }
}

/// Puts the contents of one map back. Returns how many bytes could not be.
fn put_map_back(tables: &Tables, index: usize) -> u64 {
    let map = tables.maps[index];
    if !map.is_kept {
        return 0;
    }
    let mut access = MapAccess::to(&map);
    let (mut at, mut lost) = (map.begin, 0);
    for run in &tables.runs[map.runs.0..map.runs.1] {
        lost += pages::clear(&map, at..run.first, &mut access);
        for page in 0..run.count {
            let Some(slot) = shadow::present_slot(run.slot + page) else {
                return lost + (map.end - map.start) as u64;
            };
            lost += pages::put_page_back(&map, run.first + page, slot, &mut access);
        }
        at = run.first + run.count;
    }
    lost + pages::clear(&map, at..map.last_page(), &mut access)
}

/// Closes what was opened for a moment.
fn with_file<T>(file: Fd, work: impl FnOnce(Fd) -> T) -> T {
    let outcome = work(file);
    close(file);
    outcome
}

#[cfg(test)]
mod tests;
