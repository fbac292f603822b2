//! What the copy of a head that becomes a fork has in common with its parent, replaced before any thread of the copy runs.
//!
//! A descriptor leads to an object of the kernel's, and a shared map to memory, that both sides have. A thread of the copy would write into the
//! pipes and semaphores of the parent, or take what is meant for the parent. So the guest lists them before it copies the head, and here each
//! is replaced in the copy: by a pipe or a pair of sockets of its own, by the file of the same path, by other memory with the same contents.
//! A map of a file leads to the fork's file of the same path, which init has copied before.

use crate::arch::page_bytes;
use crate::forks::shared_memory::are_all_resident;
use crate::sys::{
    self, Errno, Fd, Result, close, nr, open, open_flags, seek, set_file_flags, status, syscall,
};
use core::ffi::{CStr, c_char};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

const CLOSED: Fd = -1;

/// What takes the place of a descriptor.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ReplacementKind {
    /// The end of a pipe: [`Replacement::end`] is 0 for the end that is read from, 1 for the other.
    Pipe = 0,
    /// An end of a pair of sockets.
    Pair = 1,
    /// A socket whose other end is closed.
    Nothing = 2,
    /// A file, opened by its path.
    File = 3,
    /// Nothing takes its place: what init has put there, it has put in the place of others too (`forks/ways_back.rs`).
    Example = 4,
    /// The session's own output: [`Replacement::end`] is the number under which the fork has it.
    Output = 5,
}

/// A descriptor of the parent's, and what the fork has in its place.
#[repr(C)]
pub struct Replacement {
    device: u64,
    inode: u64,
    /// Of the file.
    path: *const c_char,
    /// Of the file.
    offset: i64,
    number: Fd,
    kind: ReplacementKind,
    /// Which pipe or pair: descriptors with the same number lead to the same one.
    group: u32,
    end: u32,
    /// Of a pair: the kind of socket. Of a file: how it is opened. Of an end: whether it waits (`O_NONBLOCK`).
    socket_kind: u32,
    flags: u32,
    /// Whether programs inherit the descriptor.
    is_inheritable: u32,
    unused: u32,
}

/// Shared memory of the parent's.
#[repr(C)]
pub struct SharedArea {
    start: usize,
    bytes: usize,
    protection: usize,
    /// Set where the fork has memory of its own now: [`OTHER_MEMORY`] or [`OWN_FILE`].
    is_replaced: usize,
    /// Private memory with what was in it before the copy was made; 0 for none.
    saved: usize,
    /// Of the file that is mapped, if the fork has one with this path; else null.
    path: *const c_char,
    offset: usize,
}

const OTHER_MEMORY: usize = 1;
const OWN_FILE: usize = 2;
/// A larger one is read when the copy runs. What is in it must not depend on what the threads of the parent do then, as that of a semaphore does.
const MAX_SAVED_BYTES: usize = 1 << 20;
const READ: usize = 1;
const READ_WRITE: usize = 3;

static REPLACEMENTS: AtomicPtr<Replacement> = AtomicPtr::new(null_mut());
static REPLACEMENT_COUNT: AtomicUsize = AtomicUsize::new(0);
/// The ends of each group, closed at first.
static GROUPS: AtomicPtr<[Fd; 2]> = AtomicPtr::new(null_mut());
static GROUP_COUNT: AtomicUsize = AtomicUsize::new(0);
static AREAS: AtomicPtr<SharedArea> = AtomicPtr::new(null_mut());
static AREA_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Notes what the next copy replaces.
///
/// # Safety
/// The arrays must stay until the copy is made, in the copy until [`replace`] has returned.
pub unsafe fn remember(
    replacements: (*mut Replacement, usize),
    groups: (*mut [Fd; 2], usize),
    areas: (*mut SharedArea, usize),
) {
    REPLACEMENTS.store(replacements.0, SeqCst);
    REPLACEMENT_COUNT.store(replacements.1, SeqCst);
    GROUPS.store(groups.0, SeqCst);
    GROUP_COUNT.store(groups.1, SeqCst);
    AREAS.store(areas.0, SeqCst);
    AREA_COUNT.store(areas.1, SeqCst);
}

/// Before the copy is made, while all other threads stand still: saves what small areas contain. A thread of the parent that is interrupted in a
/// semaphore changes it, long before the copy comes to read it.
pub fn save() {
    // SAFETY: what `remember` was given.
    for area in unsafe { look(&AREAS, &AREA_COUNT) } {
        area.save();
    }
}

/// On the side that is not the copy: forgets what was noted.
pub fn forget() {
    // SAFETY: what `remember` was given.
    let areas = unsafe {
        noted(&REPLACEMENTS, &REPLACEMENT_COUNT);
        noted(&GROUPS, &GROUP_COUNT);
        noted(&AREAS, &AREA_COUNT)
    };
    areas.iter_mut().for_each(SharedArea::drop_saved);
}

/// In the copy: replaces what was noted. Nothing of libc is used.
pub fn replace() {
    // SAFETY: what `remember` was given.
    let (replacements, groups, areas) = unsafe {
        (
            noted(&REPLACEMENTS, &REPLACEMENT_COUNT),
            noted(&GROUPS, &GROUP_COUNT),
            noted(&AREAS, &AREA_COUNT),
        )
    };
    for area in areas {
        area.is_replaced = if area.map_own_file().is_ok() {
            OWN_FILE
        } else if area.replace().is_ok() {
            OTHER_MEMORY
        } else {
            0
        };
        area.drop_saved();
    }
    let dead_ends = DeadEnds::of(replacements);
    for replacement in replacements.iter() {
        replacement.apply(groups, &dead_ends);
    }
    for end in groups.iter_mut().flatten() {
        if *end != CLOSED {
            close(*end);
        }
    }
}

/// # Safety
/// What both hold was stored together: an array and its length, or nothing. No other reference to it is in use.
unsafe fn noted<T>(array: &AtomicPtr<T>, count: &AtomicUsize) -> &'static mut [T] {
    // SAFETY: the caller's promise.
    let noted = unsafe { look(array, count) };
    array.store(null_mut(), SeqCst);
    count.store(0, SeqCst);
    noted
}

/// The same, and it stays noted.
///
/// # Safety
/// That of [`noted`].
unsafe fn look<T>(array: &AtomicPtr<T>, count: &AtomicUsize) -> &'static mut [T] {
    let (array, count) = (array.load(SeqCst), count.load(SeqCst));
    if array.is_null() {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts_mut(array, count) }
}

/// The device and the inode of what init has put in the place of sockets and directories.
struct DeadEnds([Option<(u64, u64)>; 2]);

impl DeadEnds {
    fn of(replacements: &[Replacement]) -> DeadEnds {
        let mut ends = DeadEnds([None; 2]);
        let examples = replacements
            .iter()
            .filter(|replacement| replacement.kind == ReplacementKind::Example);
        for (end, example) in ends.0.iter_mut().zip(examples) {
            *end = example
                .file_now()
                .filter(|now| *now != (example.device, example.inode));
        }
        ends
    }

    fn contain(&self, file: (u64, u64)) -> bool {
        self.0.contains(&Some(file))
    }
}

impl Replacement {
    fn file_now(&self) -> Option<(u64, u64)> {
        let status = status(self.number).ok()?;
        Some((status.device, status.inode))
    }

    fn apply(&self, groups: &mut [[Fd; 2]], dead_ends: &DeadEnds) {
        // Code may have closed it, and opened something else under its number, since it was noted.
        let is_noted = self
            .file_now()
            .is_some_and(|now| now == (self.device, self.inode) || dead_ends.contain(now));
        if !is_noted {
            return;
        }
        let replaced = match self.kind {
            ReplacementKind::Pipe | ReplacementKind::Pair => self.lead_to_end(groups),
            ReplacementKind::Nothing => Err(Errno::PIPE),
            ReplacementKind::Output => self.put(self.end as Fd),
            // The guest opens one that cannot be had yet.
            ReplacementKind::File => {
                let _ = self.open_again();
                return;
            }
            ReplacementKind::Example => return,
        };
        if replaced.is_err() && self.lead_to_nothing().is_err() {
            // It must not lead to the parent.
            close(self.number);
        }
    }

    fn lead_to_end(&self, groups: &mut [[Fd; 2]]) -> Result<()> {
        let ends = groups.get_mut(self.group as usize).ok_or(Errno::INVAL)?;
        if ends[0] == CLOSED {
            *ends = match self.kind {
                ReplacementKind::Pipe => pipe()?,
                _ => pair(self.socket_kind as usize)?,
            };
        }
        let end = ends[(self.end & 1) as usize];
        set_file_flags(end, self.flags as usize)?;
        self.put(end)
    }

    fn lead_to_nothing(&self) -> Result<()> {
        const STREAM: usize = 1;
        let [near, far] = pair(STREAM)?;
        close(far);
        let outcome = self.put(near);
        close(near);
        outcome
    }

    fn open_again(&self) -> Result<()> {
        // SAFETY: the guest keeps the path as long as the table.
        let path = unsafe { CStr::from_ptr(self.path) };
        let fresh = open(path, self.flags as usize | open_flags::CLOEXEC, 0)?;
        let outcome = seek(fresh, self.offset as usize).and_then(|_| self.put(fresh));
        close(fresh);
        outcome
    }

    fn put(&self, fresh: Fd) -> Result<()> {
        if self.is_inheritable != 0 {
            sys::move_to(fresh, self.number)
        } else {
            sys::duplicate_over(fresh, self.number)
        }
    }
}

fn pipe() -> Result<[Fd; 2]> {
    let mut ends = [CLOSED; 2];
    let words = [ends.as_mut_ptr() as usize, open_flags::CLOEXEC];
    // SAFETY: memory for two descriptors.
    unsafe { syscall(nr::PIPE2, words) }.map(|_| ends)
}

fn pair(kind: usize) -> Result<[Fd; 2]> {
    const UNIX: usize = 1;
    let mut ends = [CLOSED; 2];
    let words = [
        UNIX,
        kind | open_flags::CLOEXEC,
        0,
        ends.as_mut_ptr() as usize,
    ];
    // SAFETY: memory for two descriptors.
    unsafe { syscall(nr::SOCKETPAIR, words) }.map(|_| ends)
}

impl SharedArea {
    fn save(&mut self) {
        const PRIVATE_ANONYMOUS: usize = 0x22;
        if self.bytes > MAX_SAVED_BYTES || self.protection & READ == 0 {
            return;
        }
        let words = [0, self.bytes, READ_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0];
        // SAFETY: a fresh mapping.
        let Ok(saved) = (unsafe { syscall(nr::MMAP, words) }) else {
            return;
        };
        self.copy(self.start, saved);
        self.saved = saved;
    }

    fn drop_saved(&mut self) {
        if self.saved != 0 {
            // SAFETY: the mapping of `save`, which nothing else knows.
            let _ = unsafe { syscall(nr::MUNMAP, [self.saved, self.bytes]) };
            self.saved = 0;
        }
    }

    /// Copies the pages with contents.
    fn copy(&self, from: usize, to: usize) {
        let are_all_resident = are_all_resident();
        for page in (0..self.bytes).step_by(page_bytes()) {
            // The memory may be shorter than its map.
            if has_contents(from + page, are_all_resident) {
                // SAFETY: a page that can be read, into one of ours.
                unsafe {
                    core::ptr::copy_nonoverlapping(
                        (from + page) as *const u8,
                        (to + page) as *mut u8,
                        page_bytes(),
                    );
                }
            }
        }
    }

    /// Maps the fork's file of the same path in its place. What the parent had written to the memory meanwhile is not in it.
    fn map_own_file(&self) -> Result<()> {
        const WRITE: usize = 2;
        const SHARED_FIXED: usize = 0x11;
        if self.path.is_null() {
            return Err(Errno::INVAL);
        }
        let flags = match self.protection & WRITE {
            0 => open_flags::RDONLY,
            _ => open_flags::RDWR,
        };
        // SAFETY: the guest keeps the path as long as the table.
        let path = unsafe { CStr::from_ptr(self.path) };
        let file = open(path, flags | open_flags::CLOEXEC, 0)?;
        let words = [
            self.start,
            self.bytes,
            self.protection,
            SHARED_FIXED,
            file as usize,
            self.offset,
        ];
        // SAFETY: the file takes the place of a map that the guest found, while no other thread runs.
        let outcome = unsafe { syscall(nr::MMAP, words) };
        close(file);
        outcome?;
        if self.saved != 0 && self.protection & WRITE != 0 {
            self.copy_into_file();
        }
        Ok(())
    }

    /// The file may be shorter than its map: only pages that it has are written.
    fn copy_into_file(&self) {
        for page in (0..self.bytes).step_by(page_bytes()) {
            if can_be_read(self.start + page) {
                // SAFETY: a page of ours, into one that can be written.
                unsafe {
                    core::ptr::copy_nonoverlapping(
                        (self.saved + page) as *const u8,
                        (self.start + page) as *mut u8,
                        page_bytes(),
                    );
                }
            }
        }
    }

    /// Puts other memory with the same contents in its place, which child processes share.
    fn replace(&self) -> Result<()> {
        const SHARED_ANONYMOUS: usize = 0x21;
        const MOVE_TO: usize = 3;
        if self.protection & READ == 0 {
            return Err(Errno::INVAL);
        }
        let words = [0, self.bytes, READ_WRITE, SHARED_ANONYMOUS, usize::MAX, 0];
        // SAFETY: a fresh mapping.
        let fresh = unsafe { syscall(nr::MMAP, words) }?;
        let source = if self.saved == 0 {
            self.start
        } else {
            self.saved
        };
        self.copy(source, fresh);
        // SAFETY: the new memory takes the place of a map that the guest found, while no other thread runs.
        unsafe {
            if self.protection != READ_WRITE {
                syscall(nr::MPROTECT, [fresh, self.bytes, self.protection])?;
            }
            syscall(
                nr::MREMAP,
                [fresh, self.bytes, self.bytes, MOVE_TO, self.start],
            )
        }
        .map(drop)
    }
}

/// Whether a page has contents that can be read. One without costs nothing in the copy either.
fn has_contents(page: usize, are_all_resident: bool) -> bool {
    let mut resident = 0u8;
    // SAFETY: one byte for one page.
    let told = unsafe { syscall(nr::MINCORE, [page, 1, &raw mut resident as usize]) };
    if told.is_err() || are_all_resident && resident & 1 == 0 {
        return false;
    }
    can_be_read(page)
}

fn can_be_read(page: usize) -> bool {
    const BLOCK: usize = 0;
    // All signals are blocked, so the kernel reads a signal mask there that changes nothing, or returns an error.
    // SAFETY: the kernel reads eight bytes.
    unsafe { syscall(nr::RT_SIGPROCMASK, [BLOCK, page, 0, 8]) }.is_ok()
}
